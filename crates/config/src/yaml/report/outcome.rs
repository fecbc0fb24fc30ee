//! Errors and warnings of a file as texts. A terminal shows them with excerpts of the file, and a log in one line.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

/// The error of a refused configuration, as a whole text to print.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ConfigError {
    pub(super) text: String,
    pub(super) files: BTreeSet<PathBuf>,
}

impl ConfigError {
    /// Adds the files that the configuration names and the gateway reads.
    pub fn naming(self, files: BTreeSet<PathBuf>) -> Self {
        Self { files, ..self }
    }

    /// Adds the errors of other files, after the errors of this file.
    pub(crate) fn and(self, others: Vec<Self>) -> Self {
        let texts = std::iter::once(self.text).chain(others.into_iter().map(|error| error.text));
        let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        Self {
            text: texts.join("\n\n"),
            files: self.files,
        }
    }

    /// Returns the files that the configuration names and the gateway reads. A change of such a file may remove the error.
    pub const fn files(&self) -> &BTreeSet<PathBuf> {
        &self.files
    }

    /// Returns the problems and their notes in one line, without the excerpts.
    pub fn in_one_line(&self) -> String {
        one_line(&self.text, "error: ")
    }
}

/// A warning about a valid configuration, as a whole text to print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub(super) String);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Warning {
    /// Returns the warning and its notes in one line, without the excerpt.
    pub fn in_one_line(&self) -> String {
        one_line(&self.0, "warning: ")
    }
}

/// Joins the problems of a report and their notes in one line. Removes `kind`, the first word of each problem.
fn one_line(text: &str, kind: &str) -> String {
    let mut parts = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        let is_excerpt = line
            .trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')
            .starts_with('|');
        let line = line.strip_prefix("= ").unwrap_or(line);
        let line = line.strip_prefix(kind).unwrap_or(line);
        if !is_excerpt && !line.is_empty() {
            parts.push(line);
        }
    }
    parts.join("; ")
}
