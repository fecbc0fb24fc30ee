//! What can be wrong with a log.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a line is not one of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Where it goes wrong, from 1, in bytes.
    pub column: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.what)
    }
}

impl std::error::Error for LineError {}

/// Why reading ends before the end.
#[derive(Debug)]
pub enum Error {
    /// A file cannot be read.
    Read(PathBuf, io::Error),
    /// No format fits the beginning of a file.
    Unknown(PathBuf, String),
    /// A line is wrong, and [`Options::strict`](crate::Options) is set.
    Line(PathBuf, u64, LineError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Unknown(path, why) => write!(f, "{}: {why}", path.display()),
            Self::Line(path, number, error) => {
                write!(f, "{}: line {number}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why a text is no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError(pub(crate) String);

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatError {}
