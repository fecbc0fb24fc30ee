//! Commands that call running gateways through their admin ports.
//!
//! - `address` is the address of an admin port.
//! - `change` is a change of one override.
//! - `port` sends one call to an admin port, with the port's token.
//! - `client`, `health`, `limit`, `overrides`, `top` and `why` are the commands.

mod address;
pub(crate) mod change;
pub(crate) mod client;
mod failure;
pub(crate) mod health;
pub(crate) mod limit;
pub(crate) mod overrides;
pub(crate) mod port;
pub(crate) mod top;
pub(crate) mod why;

use std::path::Path;

pub(crate) use failure::Failure;
use tidegate_config::{Settings, Warning};

/// Loads the configuration. Its variables come from this process's environment.
///
/// # Errors
///
/// The configuration is not valid.
pub(crate) fn load(path: &Path) -> Result<(Settings, Vec<Warning>), Failure> {
    tidegate_config::load(path, environment).map_err(Failure::usage)
}

/// Returns a variable of this process's environment.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Replaces control characters, and characters that reverse the direction of text: names can contain both.
pub(crate) fn plain(lines: &str) -> String {
    let printable = |char| match char {
        '\n' | '\t' => char,
        char => tidegate_status::shown(char),
    };
    lines.chars().map(printable).collect()
}

/// Prints to standard output. If the reader has closed it, the text is dropped without an error.
pub(crate) fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
