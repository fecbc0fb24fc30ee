//! `tidegate keys`: makes API keys and their entries.

use std::io::{self, BufRead as _};

use aws_lc_rs::rand;
use clap::Subcommand;
use tidegate_tower::api_keys;

use super::Failure;

/// How many random bytes a key is made of: 192 bits, which nobody guesses.
const BYTES: usize = 24;

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum Task {
    /// Makes a key. Prints it once, with its entry for the configuration.
    New {
        /// The name of the client.
        #[arg(value_parser = tidegate_config::key_name)]
        name: String,
    },
    /// Reads a key from standard input. Prints its entry.
    Hash {
        /// The name of the client.
        #[arg(value_parser = tidegate_config::key_name)]
        name: String,
    },
}

/// Prints what was asked for.
pub(super) fn run(task: &Task) -> Result<(), Failure> {
    match task {
        Task::New { name } => {
            let mut bytes = [0; BYTES];
            rand::fill(&mut bytes).map_err(|_| Failure::failed("there are no random numbers"))?;
            let key = format!("tg_{}", hex(&bytes));
            super::print(&format!("key:   {key}\nentry: {}\n", entry(name, &key)));
        }
        Task::Hash { name } => {
            let mut line = String::new();
            io::stdin()
                .lock()
                .read_line(&mut line)
                .map_err(Failure::failed)?;
            let key = line.trim();
            if key.is_empty() {
                return Err(Failure::usage("there is no key on standard input"));
            }
            super::print(&format!("{}\n", entry(name, key)));
        }
    }
    Ok(())
}

/// What stands under `keys`, or in a `keys_file`.
fn entry(name: &str, key: &str) -> String {
    let hash = hex(&api_keys::hash(key.as_bytes()));
    // Quoted as JSON, which is YAML, where it is more than a plain word.
    let plain = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let name = if plain {
        name.to_owned()
    } else {
        serde_json::Value::from(name).to_string()
    };
    format!("- {{ name: {name}, hash: \"sha256:{hash}\" }}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
