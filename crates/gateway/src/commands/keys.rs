//! `tidegate keys`: makes API keys and their entries for the configuration.

use std::fmt::Write as _;
use std::io::{self, BufRead as _};

use aws_lc_rs::rand;
use clap::{Args, Subcommand};
use tidegate_identity::api_keys;

use super::Failure;

/// The number of random bytes in a key. 192 bits are too many to guess.
const BYTES: usize = 24;

/// The action of the command.
#[derive(Debug, Subcommand)]
pub(super) enum Task {
    /// Makes a key. Prints it once, with its entry for the configuration.
    New(Client),
    /// Reads a key from standard input. Prints its entry.
    Hash(Client),
}

/// The client of a key.
#[derive(Debug, Args)]
pub(super) struct Client {
    /// The name of the client.
    #[arg(value_parser = tidegate_config::key_name)]
    name: String,
    /// The plan of the client.
    #[arg(long, value_parser = tidegate_config::plan_name)]
    plan: Option<String>,
    /// When the key expires, in UTC: 2027-01-31 or 2027-01-31T12:00:00Z.
    #[arg(long, value_parser = tidegate_config::key_expiry)]
    expires: Option<String>,
}

/// Runs the action and prints its result.
pub(super) fn run(task: &Task) -> Result<(), Failure> {
    match task {
        Task::New(client) => {
            let mut bytes = [0; BYTES];
            rand::fill(&mut bytes).map_err(|_| Failure::failed("there are no random numbers"))?;
            let key = format!("tg_{}", hex(&bytes));
            super::print(&format!("key:   {key}\nentry: {}\n", client.entry(&key)));
        }
        Task::Hash(client) => {
            let mut line = String::new();
            io::stdin()
                .lock()
                .read_line(&mut line)
                .map_err(Failure::failed)?;
            let key = line.trim();
            if key.is_empty() {
                return Err(Failure::usage("there is no key on standard input"));
            }
            if key.chars().count() < tidegate_config::LEAST_KEY {
                return Err(Failure::usage(format!(
                    "this key is short enough to be guessed: a key has {} characters or more; `tidegate keys new NAME` makes one",
                    tidegate_config::LEAST_KEY
                )));
            }
            super::print(&format!("{}\n", client.entry(key)));
        }
    }
    Ok(())
}

impl Client {
    /// Returns the entry for `keys` or for a `keys_file`.
    fn entry(&self, key: &str) -> String {
        let hash = hex(&api_keys::hash(key.as_bytes()));
        let mut entry = format!("- {{ name: {}, hash: \"sha256:{hash}\"", word(&self.name));
        let more = [("expires", &self.expires), ("plan", &self.plan)];
        for (key, value) in more {
            if let Some(value) = value {
                let _ = write!(entry, ", {key}: {}", word(value));
            }
        }
        entry + " }"
    }
}

/// Words that YAML 1.1 or 1.2 does not read as text.
const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];

/// Formats a text for YAML. Quotes it as JSON, unless YAML reads it as text without quotes.
fn word(text: &str) -> String {
    let may_follow = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_plain =
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(may_follow);
    let is_own = WORDS.iter().any(|own| own.eq_ignore_ascii_case(text));
    match is_plain && !is_own {
        true => text.to_owned(),
        false => serde_json::Value::from(text).to_string(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
