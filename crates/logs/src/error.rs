//! Errors of logs, lines and formats.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a line does not match its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The column of the error, counted in bytes from 1.
    pub column: usize,
    /// The message, such as `expected a number of bytes`.
    pub what: &'static str,
}

impl LineError {
    /// Reports an error after this number of bytes of the line.
    pub(crate) const fn at(bytes: usize, what: &'static str) -> Self {
        let column = bytes + 1;
        Self { column, what }
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.what)
    }
}

impl std::error::Error for LineError {}

/// A wrong line.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The path of the file. `-` is standard input.
    pub path: PathBuf,
    /// The number of the line, from 1.
    pub number: u64,
    /// The error of the line.
    pub error: LineError,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, number, error) = (self.path.display(), self.number, self.error);
        write!(f, "{path}: line {number}: {error}")
    }
}

/// The reason why reading stops before the end.
#[derive(Debug)]
pub enum Error {
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// No format fits the beginning of a file.
    Unknown(PathBuf, String),
    /// A line is wrong, and [`Options::strict`](crate::Options) is set.
    Line(Refused),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unknown(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Line(refused) => refused.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

/// The reason why a text is no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(pub(crate) String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}
