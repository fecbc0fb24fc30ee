//! Shows `tidegate top`: a live view of one or several gateways in a terminal. Its figures come from the gateways' `/status.json`. Also
//! formats the tables of `tidegate client` and `tidegate limit`.
//!
//! This crate has no HTTP client. The caller passes a function ([`Read`]) that sends the requests to a gateway.

mod budgets;
mod client;
mod headline;
mod hitters;
mod limit;
mod merge;
mod reader;
mod refusal;
mod screen;
mod source;
mod table;
mod tabs;
mod terminal;
mod text;

use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::Duration;

use tidegate_status::document::Status;
use tidegate_status::shown_json;

pub use budgets::escaped;
pub use client::client_table;
use headline::{Gateways, headline};
pub use limit::limit_table;
pub use merge::merged;
use reader::Reader;
pub use refusal::refusal_lines;
pub use source::{Read, Source};
use tabs::{Tab, Window};
pub use text::clean;

/// The pause between two reads of a gateway.
const EVERY: Duration = Duration::from_secs(1);
/// The most rows of a table that is printed once.
const ROWS: usize = 20;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Print the tables once, and end. If standard output is no terminal, the tables are always printed only once.
    pub once: bool,
    /// Print the merged `/status.json` of all gateways, and end.
    pub json: bool,
}

/// Shows these gateways until the user quits.
///
/// # Errors
///
/// The terminal cannot be used. If the output is printed only once: no gateway has answered.
pub fn run(sources: Vec<Source>, options: Options) -> Result<(), String> {
    if !options.once && !options.json && io::stdout().is_terminal() {
        let reader = Reader::start(sources, EVERY);
        return terminal::run(&reader);
    }
    let answers = read_all(&sources, options.json);
    let all = answers.len();
    let mut statuses = Vec::new();
    let mut errors = Vec::new();
    for answer in answers {
        match answer {
            Ok(status) => statuses.push(status),
            Err(error) => errors.push(text::clean(&error)),
        }
    }
    let gateways = Gateways {
        answering: statuses.len(),
        all,
    };
    let Some(status) = merged(statuses) else {
        return Err(errors.join("\n"));
    };
    for error in errors {
        let _ = writeln!(io::stderr(), "warning: {error}");
    }
    let text = match options.json {
        true => json(&status)?,
        false => once(&status, gateways),
    };
    // A failed write is ignored: the program at the other end of the pipe has ended.
    let _ = io::stdout().lock().write_all(text.as_bytes());
    Ok(())
}

/// Reads `/status.json` of all gateways at the same time.
fn read_all(sources: &[Source], has_series: bool) -> Vec<Result<Status, String>> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for source in sources {
            threads.push((source, scope.spawn(move || source.status(has_series))));
        }
        let read = threads.into_iter().map(|(source, thread)| {
            let failed = |_| Err(format!("{}: a part of this program failed", source.name));
            thread.join().unwrap_or_else(failed)
        });
        read.collect()
    })
}

/// Formats the document as JSON that is safe to print to a terminal.
fn json(status: &Status) -> Result<String, String> {
    let json = serde_json::to_string_pretty(status).map_err(|error| error.to_string())?;
    Ok(shown_json(&json) + "\n")
}

/// Formats the tables of all tabs, one after the other.
fn once(status: &Status, gateways: Gateways) -> String {
    let mut text = format!("{}\n", headline(status, gateways));
    for reason in &status.health.reasons {
        text.push_str(&format!("  {}\n", clean(reason)));
    }
    for tab in Tab::ALL {
        let table = tab.table(status, Window::Minute);
        text.push_str(&format!("\n{}\n{}", tab.title(), table.text(ROWS)));
    }
    text
}
