//! `tidegate init`: writes a small configuration for one upstream.

use std::fs::OpenOptions;
use std::io::{self, BufRead, ErrorKind, IsTerminal as _, Write};
use std::path::Path;

use clap::Args;

use super::Failure;

const TEMPLATE: &str = include_str!("init.yaml");

/// The number of wrong answers to one question after which the command ends.
const MAX_ATTEMPTS: usize = 5;

/// The values for the file.
#[derive(Clone, Debug, Args)]
pub(super) struct Options {
    /// The URL of your API, such as http://127.0.0.1:9000. Without it the command asks for all values on the terminal
    #[arg(long)]
    upstream: Option<String>,
    /// The address that the gateway listens on
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// The networks of the load balancers in front of the gateway, such as 10.0.0.0/8,192.0.2.7, or none if clients connect directly
    #[arg(long, value_name = "NETWORKS", default_value = "none")]
    trusted_proxies: String,
    /// The number of requests that a client may send at once
    #[arg(long, default_value = "20")]
    burst: String,
    /// The rate at which a client may send more requests, such as 10/s or 600/m
    #[arg(long, default_value = "10/s")]
    rate: String,
}

/// Writes the file, if it does not exist yet.
pub(super) fn run(config: &Path, options: &Options) -> Result<(), Failure> {
    if config.symlink_metadata().is_ok() {
        return Err(exists(config));
    }
    let options = match &options.upstream {
        Some(_) => options.clone(),
        None if io::stdin().is_terminal() => {
            ask(options, &mut io::stdin().lock(), &mut io::stderr())?
        }
        None => {
            return Err(Failure::usage(
                "there is no upstream; add --upstream http://HOST:PORT, or run this command on a terminal",
            ));
        }
    };
    let text = text(&options);
    tidegate_config::parse(&config.display().to_string(), &text, |_| None)
        .map_err(|error| Failure::usage(format!("{error}\n\nno file was written")))?;
    let file = OpenOptions::new().write(true).create_new(true).open(config);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => exists(config),
        _ => Failure::failed(format!("{} cannot be written: {error}", config.display())),
    })?;
    super::print(&next_steps(config, &options));
    Ok(())
}

fn exists(config: &Path) -> Failure {
    Failure::failed(format!(
        "{} exists already and was not changed; `-c FILE` names another file",
        config.display()
    ))
}

/// Returns the text of the file. Quotes values that are not plain words as JSON, which is valid YAML.
fn text(options: &Options) -> String {
    let upstream = options.upstream.as_deref().unwrap_or_default();
    let proxies: Vec<_> = match options.trusted_proxies.trim() {
        "none" => Vec::new(),
        networks => networks.split(',').map(str::trim).map(quoted).collect(),
    };
    let fill = |line: &str| match line.trim_start().starts_with('#') {
        // Control characters are replaced, because a line break would end the comment.
        true => line
            .replace("BURST", &options.burst.replace(char::is_control, " "))
            .replace("RATE", &options.rate.replace(char::is_control, " ")),
        false => line
            .replace("LISTEN", &quoted(&options.listen))
            .replace("PROXIES", &proxies.join(", "))
            .replace("BURST", &quoted(&options.burst))
            .replace("RATE", &quoted(&options.rate))
            .replace("UPSTREAM", &quoted(upstream)),
    };
    TEMPLATE.lines().map(|line| fill(line) + "\n").collect()
}

fn quoted(value: &str) -> String {
    let is_plain_sign = |c: char| c.is_ascii_alphanumeric() || "./:-".contains(c);
    let is_plain = value.chars().all(is_plain_sign)
        && value.starts_with(char::is_alphanumeric)
        && !value.ends_with(':');
    match is_plain {
        true => value.to_owned(),
        false => serde_json::Value::from(value).to_string(),
    }
}

fn next_steps(config: &Path, options: &Options) -> String {
    let file = config.display();
    let option = match file.to_string().as_str() {
        "gateway.yaml" => String::new(),
        other => format!(" -c {other}"),
    };
    format!(
        "{file} was written. Next:\n  tidegate check{option}\n  tidegate run{option}\n  curl -i http://{}/\n",
        options.listen
    )
}

/// A question, its default answer, and a function that stores the answer.
type Question = (&'static str, String, fn(&mut Options, String));

/// Asks for each value until the answer is valid.
fn ask(
    options: &Options,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<Options, Failure> {
    let mut answered = Options {
        upstream: Some("http://127.0.0.1:9000".into()),
        ..options.clone()
    };
    let questions: [Question; 5] = [
        (
            "URL of your API",
            "http://127.0.0.1:9000".into(),
            |options, value| options.upstream = Some(value),
        ),
        ("Listen on", options.listen.clone(), |options, value| {
            options.listen = value
        }),
        (
            "Load balancers in front of it (networks such as 10.0.0.0/8, or none)",
            options.trusted_proxies.clone(),
            |options, value| options.trusted_proxies = value,
        ),
        (
            "Requests that a client may send at once",
            options.burst.clone(),
            |options, value| options.burst = value,
        ),
        (
            "Requests of a client after that",
            options.rate.clone(),
            |options, value| options.rate = value,
        ),
    ];
    for (question, default, set) in questions {
        let mut attempts = 0;
        loop {
            let answer = answer(question, &default, input, output)?;
            let mut next = answered.clone();
            set(&mut next, answer);
            let Err(error) = tidegate_config::parse("", &text(&next), |_| None) else {
                answered = next;
                break;
            };
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                return Err(Failure::usage(
                    "too many wrong answers; no file was written",
                ));
            }
            say(output, &format!("  {}\n", reason(&error.to_string())))?;
        }
    }
    Ok(answered)
}

/// Reads one line from the terminal. An empty line means the default.
fn answer(
    question: &str,
    default: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<String, Failure> {
    say(output, &format!("{question} [{default}]: "))?;
    let mut line = String::new();
    let read = input.read_line(&mut line).map_err(Failure::failed)?;
    if read == 0 {
        return Err(Failure::failed("there was no answer; no file was written"));
    }
    Ok(match line.trim() {
        "" => default.to_owned(),
        answer => answer.to_owned(),
    })
}

fn say(output: &mut impl Write, text: &str) -> Result<(), Failure> {
    let result = output.write_all(text.as_bytes());
    result
        .and_then(|()| output.flush())
        .map_err(Failure::failed)
}

/// Returns the message of an error in the configuration, without its position, because the file does not exist yet.
fn reason(error: &str) -> String {
    let mut lines = error.lines().take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let first = first.splitn(5, ':').last().unwrap_or(first).trim();
    let notes = lines.filter_map(|line| line.trim_start().strip_prefix("= "));
    let parts: Vec<&str> = std::iter::once(first).chain(notes).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests;
