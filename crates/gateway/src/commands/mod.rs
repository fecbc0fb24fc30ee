//! The commands that people type.
//!
//! Exit status: 0 done, 1 failed, 2 wrong arguments or configuration.

mod check;
mod client;
mod connect;
mod demo;
mod explain;
mod init;
mod keys;
mod reload;
mod run;
mod running;
mod systemd;
mod top;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use tidegate_config::{Plan, Warning};
use tidegate_telemetry::log;

/// A reverse proxy that enforces rate limits in front of an HTTP API.
#[derive(Debug, Parser)]
#[command(version, about)]
pub(crate) struct Cli {
    /// The configuration file.
    #[arg(short, long, global = true, default_value = "gateway.yaml")]
    config: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

/// A warning as a line of the log: what it says and what it advises, without the picture.
fn in_one_line(warning: &Warning) -> String {
    let text = warning.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("warning: ").unwrap_or(first);
    let notes = lines.filter_map(|line| line.trim_start().strip_prefix("= "));
    let parts: Vec<&str> = std::iter::once(first).chain(notes).collect();
    parts.join("; ")
}

#[cfg(test)]
impl Cli {
    /// What `tidegate explain` prints with this configuration, if that is the command.
    pub(crate) fn explained(&self, plan: &Plan) -> Option<String> {
        match &self.command {
            Some(Command::Explain(question)) => Some(explain::explain(plan, question)),
            _ => None,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the gateway (the default).
    Run,
    /// Runs a gateway in front of a small built-in API, and prints requests to try.
    Demo,
    /// Writes a small configuration for one upstream. Never overwrites a file.
    Init(init::Options),
    /// Checks the configuration: prints errors, warnings, and whether it would start.
    Check(check::Options),
    /// Prints the route, client, limits and keys of a request. Sends and charges nothing.
    Explain(explain::Question),
    /// Shows or resets the budgets of one client on a running gateway.
    Client(client::Question),
    /// Shows clients, limits and servers of running gateways in the terminal, live.
    Top(top::View),
    /// Makes an API key, or the configuration entry of a key.
    #[command(subcommand)]
    Keys(keys::Task),
    /// Prints the JSON Schema of the configuration, for completion in editors.
    Schema,
}

/// Why a command ended early: a text for people, and the exit status that it means.
#[derive(Debug)]
struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Wrong arguments or configuration.
    fn usage(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 2,
        }
    }

    /// The command could not do what it was asked to.
    fn failed(error: impl ToString) -> Self {
        Self {
            message: error.to_string(),
            status: 1,
        }
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command.unwrap_or(Command::Run) {
        Command::Run => run::run(&cli.config),
        Command::Demo => demo::run(),
        Command::Init(options) => init::run(&cli.config, &options),
        Command::Check(options) => check::run(&cli.config, &options),
        Command::Explain(question) => explain::run(&cli.config, &question),
        Command::Client(question) => client::run(&cli.config, &question),
        Command::Top(view) => top::run(&cli.config, &view),
        Command::Keys(task) => keys::run(&task),
        Command::Schema => schema(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let message = failure.message.trim_end();
            // The configuration's messages, which may be several, have it already.
            let word = if message.starts_with("error: ") {
                ""
            } else {
                "error: "
            };
            log::last_words(format!("{word}{message}\n"));
            ExitCode::from(failure.status)
        }
    }
}

/// Loads the configuration with the variables of this process's environment.
fn load(path: &std::path::Path) -> Result<(Plan, Vec<Warning>), Failure> {
    tidegate_config::load(path, environment).map_err(Failure::usage)
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Prints to standard output; a reader that has gone away is none of our concern.
fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

fn schema() -> Result<(), Failure> {
    let schema =
        serde_json::to_string_pretty(&tidegate_config::schema()).map_err(Failure::failed)?;
    print(&format!("{schema}\n"));
    Ok(())
}
