//! Shows: `tidegate top`, a live view of one or several gateways in a terminal, from their `/status.json`; and the table of
//! `tidegate client`.
//!
//! This crate knows no HTTP: whoever calls it reads the documents.

mod budgets;
mod client;
mod merge;
mod reader;
mod screen;
mod table;
mod terminal;
mod text;

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use tidegate_status::document::{Status, VERSION};

pub use budgets::escaped;
pub use client::client_table;
pub use merge::merged;
pub use text::clean;
use reader::Reader;
use table::{Tab, Window};

/// How often gateways are asked.
const EVERY: Duration = Duration::from_secs(1);
/// Rows of a table that is printed once.
const ROWS: usize = 20;

/// Reads a path of the admin port of a gateway, or says why not.
pub type Read = Box<dyn Fn(&str) -> Result<Vec<u8>, String> + Send>;

/// A gateway to look at.
pub struct Source {
    /// Its address, for messages.
    pub name: String,
    /// Reads from it.
    pub read: Read,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// What to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Print once, and end. A pipe is printed to once, too.
    pub once: bool,
    /// Print the document, merged, and end.
    pub json: bool,
}

/// Shows these gateways until somebody quits.
///
/// # Errors
///
/// Nothing was read from any gateway, if it prints once; or the terminal cannot be used.
pub fn run(sources: Vec<Source>, options: Options) -> Result<(), String> {
    if !options.once && !options.json && io::stdout().is_terminal() {
        let reader = Reader::start(sources, EVERY);
        return terminal::run(&reader);
    }
    let mut statuses = Vec::new();
    let mut failed = None;
    for source in &sources {
        match status(source) {
            Ok(status) => statuses.push(status),
            Err(error) => {
                let error = format!("{}: {error}", source.name);
                let _ = writeln!(io::stderr(), "warning: {}", table::clean(&error));
                failed = Some(error);
            }
        }
    }
    let Some(status) = merged(statuses) else {
        return Err(failed.unwrap_or_else(|| "there is no gateway to ask".to_owned()));
    };
    let text = match options.json {
        true => json(&status)?,
        false => once(&status),
    };
    // A reader that has gone away is none of our concern.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}

/// The address of a URL `http://HOST:PORT`.
///
/// # Errors
///
/// The URL has another form, or its host has no address.
pub fn address(url: &str) -> Result<SocketAddr, String> {
    let wrong = || format!("{url} is no URL of an admin port; write http://HOST:PORT");
    let authority = url.strip_prefix("http://").ok_or_else(wrong)?;
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    if authority.contains(['/', '@', '?', '#']) {
        return Err(wrong());
    }
    let found = authority.to_socket_addrs();
    let mut found = found.map_err(|error| format!("{}: {error}", wrong()))?;
    found.next().ok_or_else(wrong)
}

/// The document of one gateway.
fn status(source: &Source) -> Result<Status, String> {
    let text = (source.read)("/status.json")?;
    let wrong = "the answer is not that of a gateway's /status.json";
    let status: Status = serde_json::from_slice(&text).map_err(|_| wrong.to_owned())?;
    match status.version {
        VERSION => Ok(status),
        // It says nothing of a version.
        0 => Err(wrong.to_owned()),
        other => Err(format!(
            "its /status.json has version {other}, and this tidegate reads version {VERSION}; use a tidegate of its version"
        )),
    }
}

/// All tables, one after the other.
fn once(status: &Status) -> String {
    let mut text = format!("{}\n", table::headline(status, 1));
    for tab in Tab::ALL {
        let table = tab.table(status, Window::Minute);
        text.push_str(&format!("\n{}\n{}", tab.title(), table.text(ROWS)));
    }
    text
}

/// The document, safe to print to a terminal.
fn json(status: &Status) -> Result<String, String> {
    let json = serde_json::to_string_pretty(status).map_err(|error| error.to_string())?;
    Ok(tidegate_status::shown_json(&json) + "\n")
}
