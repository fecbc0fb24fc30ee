//! `deny_file`: networks in a file, one a line.

use std::path::{Path, PathBuf};

use crate::yaml::{ConfigError, MAX_PROBLEMS, Place, Problem, Source};
use tidegate_identity::{NetworkFile, NetworkTable};

use crate::check::Check;
use crate::value::net::Network;
use crate::value::word::FilePath;
use crate::value::{Fault, Scalar, Value};

/// The characters that begin a comment.
const COMMENT: [char; 2] = ['#', ';'];

/// A file with denied networks.
#[derive(Debug, Clone)]
pub struct DenyFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The table of networks, in which the gateway looks up the addresses of requests.
    pub networks: NetworkFile,
}

/// Reads the file that `deny_file` names.
pub(crate) fn deny_file(check: &mut Check<'_>, scalar: &Scalar<FilePath>) -> Option<DenyFile> {
    let path = check.file(scalar)?;
    match load_networks(&path) {
        Ok(networks) => Some(DenyFile {
            networks: NetworkFile::new(path.display().to_string(), networks),
            path,
        }),
        Err(error) => {
            let problem = Problem::new(scalar.place, "this file with networks is refused");
            check.refuse(problem.caused_by(&error));
            None
        }
    }
}

/// Reads a file of networks, addresses and comments, one a line. Returns each network with the number of its line.
///
/// # Errors
///
/// The file cannot be read, or a line is no network.
pub fn load_networks(path: &Path) -> Result<NetworkTable<u32>, ConfigError> {
    let name = path.display().to_string();
    let text = crate::read_text(path).map_err(|problem| crate::refusal(&name, problem))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    // Errors in this file show line numbers but no excerpts, because they become notes of an error in the configuration.
    let source = Source::secret(&name, text);
    if text.trim().is_empty() {
        // Another program may be writing the file at this moment. Without this error, no client would be denied until the program has
        // finished.
        let problem = Problem::new(None, "this file is empty")
            .note("a file without networks has a comment: # none");
        return Err(source.refuse(vec![problem]));
    }
    let mut networks = NetworkTable::default();
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split(COMMENT).next().unwrap_or_default();
        let before = entry.len() - entry.trim_start().len();
        let entry = entry.trim();
        if entry.is_empty() {
            continue;
        }
        match Network::read(entry) {
            Ok(Network(network)) => {
                // If a network is listed twice, the first line counts.
                networks.insert(network, number);
            }
            Err(fault) if problems.len() <= MAX_PROBLEMS => {
                let place = Place {
                    line: number as usize,
                    column: line[..before].chars().count() + 1,
                    length: entry.chars().count(),
                };
                problems.push(problem(fault, entry, place));
            }
            // An error shows at most `MAX_PROBLEMS` problems, so reading more lines is useless.
            Err(_) => break,
        }
    }
    match problems.is_empty() {
        true => Ok(networks),
        false => Err(source.refuse(problems)),
    }
}

fn problem(fault: Fault, entry: &str, place: Place) -> Problem {
    // Only text in the form of a network is shown, because `deny_file` may name a file with secrets by mistake, such as a key file.
    let is_shown = entry
        .chars()
        .all(|c| c.is_ascii_hexdigit() || ".:/".contains(c));
    let message = match fault {
        Fault::Form if is_shown => format!("`{entry}` is not {}", Network::WHAT),
        Fault::Form => format!("this is not {}", Network::WHAT),
        Fault::Because(reason) => reason.to_owned(),
        Fault::Quoting(reason) => reason,
    };
    let allowed = Network::ALLOWED;
    Problem::new(place, message).note(format!("allowed here: {allowed}; # begins a comment"))
}

#[cfg(test)]
mod tests;
