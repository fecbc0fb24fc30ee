//! Reads access logs of gateways and proxies: one [`Entry`] per request, in the order of arrival.
//!
//! A [`Format`] defines the form of lines, and the [`Field`]s that they can have. A [`Parser`] reads single lines. A [`Reader`] reads
//! files, decompresses them, merges them by time, and counts unreadable lines. A value that a line lacks is `None`. No value is guessed.

mod address;
mod detect;
mod entry;
mod error;
mod field;
mod format;
mod held;
mod input;
mod lines;
mod map;
mod meaning;
mod names;
mod parser;
mod reader;
mod record;
mod report;
mod request;
mod text;
mod time;
mod wrapper;

pub use entry::Entry;
pub use error::{Error, FormatError, LineError, Refused};
pub use field::{Field, Fields};
pub use format::Format;
pub use parser::{Line, Parser};
pub use reader::{Options, Reader, Source};
pub use record::Stamp;
pub use report::Report;
pub use text::Text;
