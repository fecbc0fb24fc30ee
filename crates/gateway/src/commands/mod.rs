//! The command line of the program.
//!
//! The exit status is 0 after success, 1 after a failure, and 2 for wrong arguments or a wrong configuration.

mod check;
mod connect;
mod demo;
mod explain;
mod file;
mod init;
mod keys;
mod papers;
mod reload;
mod run;
mod scripts;
mod simulate;
mod systemd;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::remote::{
    Failure, client, environment, health, limit, load, overrides, print, top, why,
};
#[cfg(test)]
use tidegate_config::Settings;
use tidegate_telemetry::{log, program};

/// A reverse proxy that enforces rate limits in front of an HTTP API.
#[derive(Debug, Parser)]
#[command(version = program::BUILD, about)]
pub(crate) struct Cli {
    /// The configuration file. For `simulate` repeat the option to name several. Default: the file that the variable TIDEGATE_CONFIG names,
    /// else gateway.yaml in this folder, else /etc/tidegate/gateway.yaml.
    #[arg(short, long, global = true)]
    config: Vec<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[cfg(test)]
impl Cli {
    /// Returns the output of this command with this configuration, if the command is `explain`.
    pub(crate) fn explained(&self, settings: &Settings) -> Option<String> {
        match &self.command {
            Some(Command::Explain(question)) => {
                let overrides = explain::Overriding::default();
                Some(explain::explain(settings, question, None, &overrides))
            }
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
    /// Prints the route, client, limits and keys of a request, without sending or charging it.
    Explain(explain::Question),
    /// Replays access logs against configurations: who would have been refused or delayed, when, and by which limit.
    Simulate(Box<tidegate_simulate::Options>),
    /// Sums requests and units from access logs, by client, plan, route, limit, day or month.
    Usage(usage::Options),
    /// Shows or resets the budgets of one client, or changes its override, on a running gateway.
    Client(client::Question),
    /// Shows or resets budgets of one limit on a running gateway, or lists the limit's keys.
    Limit(Box<limit::Question>),
    /// Prints the reason why a running gateway refused a request, by the request ID of the answer.
    Why(why::Question),
    /// Shows, saves or sets all overrides of a running gateway.
    Overrides(overrides::Question),
    /// Shows clients, limits and servers of running gateways in the terminal, live.
    Top(top::View),
    /// Makes an API key, or the configuration entry of a key.
    #[command(subcommand)]
    Keys(keys::Task),
    /// Prints the scripts that Redis gets from a gateway with this configuration: all names, or the text of one.
    Scripts(scripts::Options),
    /// Checks the health of a running gateway through its admin port. Ends with status 1 if the gateway is not healthy.
    Health(health::Question),
    /// Prints completions of commands and options for a shell.
    Completions(papers::Completions),
    /// Writes manual pages into a folder.
    #[command(hide = true)]
    Man(papers::Manual),
    /// Prints the JSON Schema of the configuration, for completion in editors.
    Schema,
}

impl Command {
    /// Returns whether the command ignores `-c`.
    const fn reads_no_configuration(&self) -> bool {
        matches!(
            self,
            Self::Demo
                | Self::Usage(_)
                | Self::Keys(_)
                | Self::Completions(_)
                | Self::Man(_)
                | Self::Schema
        )
    }
}

impl Cli {
    fn run(self) -> Result<(), Failure> {
        let command = self.command.unwrap_or(Command::Run);
        if !self.config.is_empty() && command.reads_no_configuration() {
            return Err(Failure::usage(
                "this command reads no configuration: leave out -c",
            ));
        }
        let files = match command {
            Command::Init(_) => file::to_write(self.config),
            _ => file::to_read(self.config),
        };
        if let Command::Simulate(options) = command {
            return simulate::run(&files, &options);
        }
        let [config] = &files[..] else {
            return Err(Failure::usage(
                "only `tidegate simulate` takes several configurations",
            ));
        };
        match command {
            Command::Run => run::run(config),
            Command::Demo => demo::run(),
            Command::Init(options) => init::run(config, &options),
            Command::Check(options) => check::run(config, &options),
            Command::Explain(question) => explain::run(config, &question),
            Command::Usage(options) => usage::run(&options),
            Command::Client(question) => client::run(config, &question),
            Command::Limit(question) => limit::run(config, &question),
            Command::Why(question) => why::run(config, &question),
            Command::Overrides(question) => overrides::run(config, &question),
            Command::Top(view) => top::run(config, &view),
            Command::Keys(task) => keys::run(&task),
            Command::Scripts(options) => scripts::run(config, &options),
            Command::Health(question) => health::run(config, &question),
            Command::Completions(options) => {
                papers::completions(&options);
                Ok(())
            }
            Command::Man(options) => papers::manual(&options),
            Command::Schema => schema(),
            // `simulate` was run at the beginning of this function.
            Command::Simulate(_) => Ok(()),
        }
    }
}

/// Runs the command that the arguments name.
pub fn main() -> ExitCode {
    let Err(failure) = Cli::parse().run() else {
        return ExitCode::SUCCESS;
    };
    let message = failure.message.trim_end();
    // Messages about the configuration already begin with `error: `.
    let word = match message.starts_with("error: ") {
        true => "",
        false => "error: ",
    };
    // The message may quote a file or another program's answer, so control characters are replaced.
    log::last_words(crate::remote::plain(&format!("{word}{message}\n")));
    ExitCode::from(failure.status)
}

fn schema() -> Result<(), Failure> {
    let schema =
        serde_json::to_string_pretty(&tidegate_config::schema()).map_err(Failure::failed)?;
    print(&format!("{schema}\n"));
    Ok(())
}
