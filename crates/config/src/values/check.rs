//! The state of a check of a configuration. The check reads values, fills in their variables, and collects problems.
//!
//! All problems are collected, not only the first. The check continues without the part that has a problem. It returns settings only if
//! there are no errors.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::yaml::{
    ConfigError, MAX_PROBLEMS, Place, Problem, Source, Unfilled, Warning, Why, expand,
};

use crate::values::value::word::FilePath;
use crate::values::value::{Scalar, Value};

/// The state of a check.
pub(crate) struct Check<'a> {
    /// The file that is checked.
    pub(crate) source: &'a Source<'a>,
    /// Looks up variables of the environment.
    pub(crate) env: &'a dyn Fn(&str) -> Option<String>,
    /// The errors so far.
    pub(crate) problems: Vec<Problem>,
    /// The warnings so far.
    pub(crate) warnings: Vec<Problem>,
    /// The files that the gateway reads, by their paths in the part of the configuration that has been checked so far.
    pub(crate) files: BTreeSet<PathBuf>,
    /// The errors of other files that belong to the configuration.
    pub(crate) errors_of_files: Vec<ConfigError>,
    /// The warnings of these files.
    pub(crate) warnings_of_files: Vec<Warning>,
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").finish_non_exhaustive()
    }
}

impl<'a> Check<'a> {
    /// Starts a check of this file.
    pub(crate) const fn new(
        source: &'a Source<'a>,
        env: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            source,
            env,
            problems: Vec::new(),
            warnings: Vec::new(),
            files: BTreeSet::new(),
            errors_of_files: Vec::new(),
            warnings_of_files: Vec::new(),
        }
    }
}

impl Check<'_> {
    /// Adds an error.
    pub(crate) fn refuse(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, problem: Problem) {
        self.warnings.push(problem);
    }

    /// Adds the errors and the warnings of another file, which belongs to the configuration.
    pub(crate) fn add_file(&mut self, file: Check<'_>) {
        if !file.problems.is_empty() {
            self.errors_of_files.push(file.source.refuse(file.problems));
        }
        let warnings = file.source.warn(file.warnings);
        self.warnings_of_files.extend(warnings);
    }

    /// Refuses a name that is not defined. The error lists the defined names. If no name is defined, the error has the text in `none` as
    /// its note.
    pub(crate) fn undefined<'n, T>(
        &mut self,
        what: &str,
        scalar: &Scalar<T>,
        names: impl Iterator<Item = &'n String>,
        none: &str,
    ) {
        let mut problem =
            Problem::new(scalar.place, format!("there is no {what} `{}`", scalar.raw));
        // With thousands of names and errors, a list for each error would take too long. Only the first `MAX_PROBLEMS` errors are shown, so
        // only they get a list.
        if self.problems.len() < MAX_PROBLEMS {
            let mut names: Vec<_> = names.collect();
            names.sort();
            problem = match names.as_slice() {
                [] => problem.note(none),
                names => problem.choices(&scalar.raw, names),
            };
        }
        self.refuse(problem);
    }

    /// Reads a value with its variables filled in. If the value is refused, reports an error and returns `None`.
    pub(crate) fn read<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        let text = self.fill(scalar)?;
        if text.len() > T::MAX_BYTES {
            let problem = Problem::new(scalar.place, format!("{} is too long", T::WHAT));
            self.refuse(problem.note(format!("the longest has {} bytes", T::MAX_BYTES)));
            return None;
        }
        match T::read(&text) {
            Ok(value) => Some(value),
            Err(fault) => {
                let is_filled = matches!(text, Cow::Owned(_));
                self.refuse(fault.problem(scalar, is_filled));
                None
            }
        }
    }

    /// Reads a value like [`read`](Self::read), but errors show no line, because the same line may contain a secret.
    pub(crate) fn read_hidden<T: Value>(&mut self, scalar: &Scalar<T>) -> Option<T> {
        let before = self.problems.len();
        let value = self.read(scalar);
        // A text that is not a word may be a name together with a secret, so it is not shown.
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        for problem in &mut self.problems[before..] {
            if !scalar.raw.chars().all(is_word) {
                *problem = Problem::new(scalar.place, format!("this is not {}", T::WHAT))
                    .note(format!("allowed here: {}", T::ALLOWED));
            }
            *problem = problem.clone().without_line();
        }
        value
    }

    /// Reads a value that may be missing. Returns `None` if the value is missing or refused.
    pub(crate) fn read_some<T: Value>(&mut self, scalar: Option<&Scalar<T>>) -> Option<T> {
        scalar.and_then(|scalar| self.read(scalar))
    }

    /// Returns the path of a file that the gateway reads, and adds the path to `files`. A relative path starts at the folder of the
    /// configuration.
    pub(crate) fn file(&mut self, scalar: &Scalar<FilePath>) -> Option<PathBuf> {
        let path = self.path(scalar)?;
        self.files.insert(path.clone());
        Some(path)
    }

    /// Returns the path of a file that the gateway writes. A relative path starts at the folder of the configuration.
    pub(crate) fn path(&mut self, scalar: &Scalar<FilePath>) -> Option<PathBuf> {
        let FilePath(path) = self.read(scalar)?;
        let folder = Path::new(self.source.name)
            .parent()
            .unwrap_or(Path::new(""));
        Some(folder.join(path))
    }

    /// Returns the text of a value with its variables filled in. If a variable cannot be filled in, reports an error and returns `None`.
    pub(crate) fn fill<'l, T>(&mut self, scalar: &'l Scalar<T>) -> Option<Cow<'l, str>> {
        let unfilled = match expand(&scalar.raw, self.env) {
            Ok(text) => return Some(text),
            Err(unfilled) => unfilled,
        };
        let place = self.reference(&unfilled, scalar.place);
        self.refuse(match unfilled.why {
            Why::Unset(name) => Problem::new(
                place,
                format!("the environment variable `{name}` is not set"),
            )
            .note(format!("set it, or give a default: ${{{name}:-default}}")),
            Why::Long => Problem::new(place, "this value is too long with its variables filled in"),
            Why::Form => Problem::new(place, "this is not a variable")
                .note("allowed here: ${NAME}, ${NAME:-default}, or $${ for the characters ${"),
        });
        None
    }

    /// Returns the place of a variable in a value. If the variable is not in the value's first line, returns the place of the value.
    fn reference(&self, unfilled: &Unfilled<'_>, place: Option<Place>) -> Option<Place> {
        let place = place?;
        let line: String = self
            .source
            .line(place.line)
            .chars()
            .skip(place.column - 1)
            .collect();
        let Some(at) = line.find(unfilled.reference) else {
            return Some(place);
        };
        Some(Place {
            line: place.line,
            column: place.column + line[..at].chars().count(),
            length: unfilled.reference.chars().count(),
        })
    }
}
