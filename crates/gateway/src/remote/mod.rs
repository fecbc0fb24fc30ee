//! The commands that call running gateways, through their admin ports.
//!
//! - `address`: the address of a port
//! - `port`: its token, and one exchange
//! - `client`, `health`, `overrides`, `top`, `why`: the commands

mod address;
pub(crate) mod client;
mod failure;
pub(crate) mod health;
pub(crate) mod overrides;
pub(crate) mod port;
pub(crate) mod top;
pub(crate) mod why;

use std::path::Path;

pub(crate) use failure::Failure;
use tidegate_config::{Plan, Warning};

/// Loads the configuration with the variables of this process's environment.
///
/// # Errors
///
/// The configuration is refused.
pub(crate) fn load(path: &Path) -> Result<(Plan, Vec<Warning>), Failure> {
    tidegate_config::load(path, environment).map_err(Failure::usage)
}

/// Returns a variable of this process's environment.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Replaces characters that a terminal obeys, and marks that turn the direction of writing: names may have some.
pub(crate) fn plain(lines: &str) -> String {
    let line = |char| match char {
        '\n' | '\t' => char,
        char => tidegate_status::shown(char),
    };
    lines.chars().map(line).collect()
}

/// Prints to standard output, without an error if the reader has gone away.
pub(crate) fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
