//! Reads the configuration from YAML and checks it, when the gateway starts and at each reload.
//!
//! ```text
//! text ─ yaml ─> file::File ─ file::check ─> settings::Settings
//! (as written)               (what the gateway runs)
//! ```
//!
//! Only this crate can make [`Settings`], so a gateway never runs a configuration that was not checked. An error shows the line and column
//! of the mistake, the text of this line, and the allowed values. Text that may be a secret is left out.

mod access;
mod admin;
mod answers;
mod bounds;
mod clients;
mod decisions;
mod file;
mod fixed;
mod hints;
mod limits;
mod listeners;
mod log;
mod nothing;
mod pem;
pub mod routes;
mod secret;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod tracing;
mod unknown;
mod upstreams;
mod values;
mod yaml;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

pub use access::networks::{DenyFile, load_networks};
pub use admin::{AdminSettings, AdminToken, Role};
pub use bounds::timeouts::Timeouts;
pub use clients::keys::KeyFile;
pub use clients::tokens::JwksSettings;
pub use decisions::DecisionsSettings;
pub use fixed::Fixed;
pub use listeners::ListenerSettings;
pub use log::LogSettings;
pub use secret::{LEAST_KEY, Secret};
pub use settings::Settings;
pub use store::StoreSettings;
pub use yaml::{ConfigError, Warning};

use tidegate_identity::ClientPlans;
use tidegate_identity::api_keys::ListedKey;
use tidegate_net::file_error;
use value::Value;
use value::client::{Date, KeyName, PlanName};
use values::{check, shape, value};
use yaml::{Place, Problem, Source};

/// The largest file that this crate reads, in bytes: a configuration, or a file of API keys or denied networks.
pub const MAX_BYTES: u64 = 16 << 20;

/// Reads the configuration in a file and checks it. `env` looks up variables of the environment.
///
/// # Errors
///
/// The file cannot be read, or has mistakes, which the error lists.
pub fn load(
    path: &Path,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(Settings, Vec<Warning>), ConfigError> {
    load_after(path, env, None)
}

/// Reads a configuration like [`load`], for a running gateway. The configuration must not change the parts in `before`, because only a
/// restart can change them.
///
/// # Errors
///
/// The errors of [`load`], or a part that differs from `before`.
pub fn reload(
    path: &Path,
    env: impl Fn(&str) -> Option<String>,
    before: &Fixed,
) -> Result<(Settings, Vec<Warning>), ConfigError> {
    load_after(path, env, Some(before))
}

fn load_after(
    path: &Path,
    env: impl Fn(&str) -> Option<String>,
    before: Option<&Fixed>,
) -> Result<(Settings, Vec<Warning>), ConfigError> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|error| {
        let note = match error.kind() {
            ErrorKind::NotFound => "`-c FILE` names another; `tidegate init` writes one",
            _ => "a configuration is one YAML file; `-c FILE` names another",
        };
        refusal(&name, Problem::new(None, unreadable(&error)).note(note))
    })?;
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse_after(&name, text, env, before),
        Err(error) => {
            let text = String::from_utf8_lossy(&bytes);
            let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            let problem = Problem::new(Place::end_of(&good), "this is not UTF-8 text")
                .note("save the file as UTF-8");
            Err(Source::new(&name, &text).refuse(vec![problem]))
        }
    }
}

/// Checks the text of a configuration. `name` is the file's name in messages.
///
/// # Errors
///
/// The text has mistakes, which the error lists.
pub fn parse(
    name: &str,
    text: &str,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(Settings, Vec<Warning>), ConfigError> {
    parse_after(name, text, env, None)
}

fn parse_after(
    name: &str,
    text: &str,
    env: impl Fn(&str) -> Option<String>,
    before: Option<&Fixed>,
) -> Result<(Settings, Vec<Warning>), ConfigError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let source = Source::new(name, text);
    if text.len() as u64 > MAX_BYTES {
        let problem = Problem::new(None, "this file is too long").note("the longest is 16 MB");
        return Err(source.refuse(vec![problem]));
    }
    let file = yaml::read(&source, hints::unknown_key)
        .map_err(|problem| source.refuse(unknown::beside(problem, &source, &schema())))?;
    file::check(&file, &source, &env, before)
}

/// Reads a file of API keys. Checks its keys together with the keys that the configuration has `listed`, and with the defined `plans`.
///
/// # Errors
///
/// The file cannot be read, or is no list of keys.
pub fn load_keys(
    path: &Path,
    listed: &[ListedKey],
    plans: &ClientPlans,
) -> Result<Vec<ListedKey>, ConfigError> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|problem| refusal(&name, problem))?;
    // A user may write a key in place of its hash by mistake. So no message shows a line of the file.
    let source = Source::secret(&name, &text);
    let keys: Vec<_> = yaml::read(&source, |_, _| None).map_err(|problem| {
        let problem = Problem::new(problem.place, "this is not a list of keys");
        let form = "allowed here: - { name: acme, hash: \"sha256:…\" }, and expires: 2027-01-31, plan: gold";
        source.refuse(vec![problem.note(form)])
    })?;
    if keys.is_empty() && !text.contains('[') {
        let problem = Problem::new(None, "this file is empty; a list of no keys is written []");
        return Err(refusal(&name, problem));
    }
    clients::keys::keys(&keys, &source, listed, plans)
}

/// Checks the name of an API key, and returns it.
///
/// # Errors
///
/// The text is no name of a key. The error describes the allowed names.
pub fn key_name(text: &str) -> Result<String, String> {
    let KeyName(name) = read_value(text)?;
    Ok(name)
}

/// Checks the name of a plan, and returns it.
///
/// # Errors
///
/// The text is no name of a plan. The error describes the allowed names.
pub fn plan_name(text: &str) -> Result<String, String> {
    let PlanName(name) = read_value(text)?;
    Ok(name)
}

/// Checks the time at which an API key expires, and returns it as written.
///
/// # Errors
///
/// The text is no date, or the date is over. The error describes the mistake.
pub fn key_expiry(text: &str) -> Result<String, String> {
    match read_value::<Date>(text)?.is_over() {
        true => Err("this time is over: the key would never be known".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Reads a value of a command line.
fn read_value<T: Value>(text: &str) -> Result<T, String> {
    T::read(text).map_err(|_| format!("allowed here: {}", T::ALLOWED))
}

/// Returns the JSON Schema of the configuration, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(file::File).to_value()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The bound is one byte above `MAX_BYTES`, so that callers can detect a file that is too large.
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns an error about a whole file, without a line and column.
fn refusal(name: &str, problem: Problem) -> ConfigError {
    Source::new(name, "").refuse(vec![problem])
}

/// Reads the text of a file that the running gateway rereads.
fn read_text(path: &Path) -> Result<String, Problem> {
    // Opening a pipe would block until another process opens its other end, so pipes are refused.
    let is_pipe = fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir());
    if is_pipe {
        return Err(Problem::new(None, "this is no regular file"));
    }
    let bytes = read(path).map_err(|error| Problem::new(None, unreadable(&error)))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::new(None, "this file is too long").note("the longest is 16 MB"));
    }
    String::from_utf8(bytes).map_err(|_| Problem::new(None, "this is not UTF-8 text"))
}

fn unreadable(error: &io::Error) -> String {
    format!("cannot be read: {}", file_error::reason(error.kind()))
}
