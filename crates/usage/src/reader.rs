//! Reads a body as it passes.

use std::fmt;
use std::ops::Range;

use crate::events::{Events, Piece};
use crate::gzip::Gunzip;
use crate::json::Scanner;
use crate::path::JsonPath;
use crate::weight::WeightedPath;

/// The number of decompressed bytes after which [`BodyReader::read_step`] returns.
const STEP: u64 = 256 << 10;
/// The number of compressed bytes between two checks of `STEP`. This number of bytes expands to about 500 KiB at most.
const SLICE: usize = 512;

/// A reader of the numbers and texts at given paths in a body.
///
/// ```
/// use tidegate_usage::{BodyReader, JsonPath};
///
/// let path: JsonPath = "usage.total_tokens".parse()?;
/// let mut reader = BodyReader::new("text/event-stream", "", [path])?;
/// reader.read(b"data: {\"text\":\"Hello\",\"usage\":null}\n\n");
/// reader.read(b"data: {\"usage\":{\"total_tokens\":42}}\n\ndata: [DO");
/// reader.read(b"NE]\n\n");
/// assert_eq!(reader.found(0), Some(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BodyReader {
    gunzip: Option<Gunzip>,
    text: Decompressed,
}

/// The reason why a body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The body is neither JSON nor an event stream.
    #[error("the body is neither JSON nor an event stream")]
    ContentType,
    /// The body has another compression than gzip.
    #[error("the body is compressed by something else than gzip")]
    ContentEncoding,
}

/// The scanners of a body's decompressed text.
struct Decompressed {
    /// `None` if the body is JSON and not an event stream.
    events: Option<Events>,
    /// The scanners for numbers, then the scanners for texts.
    scanners: Vec<Scanner>,
    /// The number of scanners for numbers.
    numbers: usize,
}

impl BodyReader {
    /// Makes a reader for a body with these headers `Content-Type` and `Content-Encoding`. A missing `Content-Encoding` is empty.
    ///
    /// # Errors
    ///
    /// A body with these headers cannot be read.
    pub fn new(
        content_type: &str,
        content_encoding: &str,
        paths: impl IntoIterator<Item: Into<WeightedPath>>,
    ) -> Result<Self, Unreadable> {
        let events = is_events(content_type)?.then(Events::new);
        let encoding = content_encoding.trim();
        let is = |names: [&str; 2]| names.iter().any(|name| encoding.eq_ignore_ascii_case(name));
        let is_gzip = is(["gzip", "x-gzip"]);
        if !is_gzip && !is(["", "identity"]) {
            return Err(Unreadable::ContentEncoding);
        }
        let gunzip = is_gzip.then(Gunzip::new);
        let scanners = paths.into_iter().map(|path| Scanner::number(path.into()));
        let scanners: Vec<_> = scanners.collect();
        let numbers = scanners.len();
        let text = Decompressed {
            events,
            scanners,
            numbers,
        };
        Ok(Self { gunzip, text })
    }

    /// Reads the texts at these paths, too. Must be called before the first part of the body is read.
    #[must_use]
    pub fn with_texts(mut self, paths: impl IntoIterator<Item = JsonPath>) -> Self {
        self.text
            .scanners
            .extend(paths.into_iter().map(Scanner::text));
        self
    }

    /// Reads the next part of the body.
    pub fn read(&mut self, part: &[u8]) {
        let mut rest = part;
        while !rest.is_empty() {
            rest = &rest[self.read_step(rest)..];
        }
    }

    /// Reads the next part of the body, or only its beginning if the part expands very much. Returns the number of bytes read, which is 0
    /// only for an empty part. A step takes about a millisecond at most, so that other tasks can run between two steps.
    pub fn read_step(&mut self, part: &[u8]) -> usize {
        let text = &mut self.text;
        let Some(gunzip) = &mut self.gunzip else {
            text.read(part);
            return part.len();
        };
        let (before, mut read) = (gunzip.given(), 0);
        for slice in part.chunks(SLICE) {
            gunzip.read(slice, |piece| text.read(piece));
            read += slice.len();
            if gunzip.given() - before >= STEP {
                break;
            }
        }
        read
    }

    /// Returns the largest number so far at the path with this index times its weight, in thousandths, rounded up to an integer. Returns
    /// `None` if there was no number of 0 or more. A result above 10^18 may be inexact, and is at most [`u64::MAX`].
    pub fn thousandths(&self, path: usize) -> Option<u64> {
        self.text.scanners.get(path)?.maximum()
    }

    /// Returns the sum of the [`thousandths`](Self::thousandths) of these paths, at most [`u64::MAX`]. A path without a number counts as 0.
    /// `None` if no path has a number.
    pub fn sum(&self, paths: Range<usize>) -> Option<u64> {
        let numbers = paths.filter_map(|path| self.thousandths(path));
        numbers.reduce(u64::saturating_add)
    }

    /// Returns the text at the path with this index. `None` if there was no text, if there were different texts, or if a text has more than
    /// 128 bytes or an escape such as `\u0041`.
    pub fn text(&self, path: usize) -> Option<&str> {
        let scanner = self.text.scanners.get(self.text.numbers + path)?;
        scanner.found_text()
    }

    /// Whether there was a text at the path with this index. [`text`](Self::text) does not return every text.
    pub fn has_text(&self, path: usize) -> bool {
        let scanner = self.text.scanners.get(self.text.numbers + path);
        scanner.is_some_and(Scanner::has_value)
    }

    /// Whether there was a number or a text at each path.
    pub fn has_all(&self) -> bool {
        self.text.scanners.iter().all(Scanner::has_value)
    }

    /// Whether the text is not JSON, so that the rest of the document is not read.
    pub fn is_failed(&self) -> bool {
        self.text.scanners.iter().any(Scanner::is_failed)
    }

    /// Returns the same as [`thousandths`](Self::thousandths) in units, rounded up to an integer.
    pub fn found(&self, path: usize) -> Option<u64> {
        Some(self.thousandths(path)?.div_ceil(1_000))
    }
}

impl Decompressed {
    fn read(&mut self, part: &[u8]) {
        let scanners = &mut self.scanners;
        let Some(events) = &mut self.events else {
            scanners.iter_mut().for_each(|scanner| scanner.read(part));
            return;
        };
        events.read(part, |piece| {
            scanners.iter_mut().for_each(|scanner| match piece {
                Piece::Data(data) => scanner.read(data),
                Piece::End => scanner.restart(),
            });
        });
    }
}

/// Returns whether the body is an event stream. Returns an error if it is not JSON either.
fn is_events(content_type: &str) -> Result<bool, Unreadable> {
    let name = content_type.split(';').next().unwrap_or_default().trim();
    let (kind, subtype) = name.split_once('/').ok_or(Unreadable::ContentType)?;
    if kind.eq_ignore_ascii_case("text") && subtype.eq_ignore_ascii_case("event-stream") {
        return Ok(true);
    }
    // A body of such a type may have several JSON documents, with or without line feeds between them. The scanner reads all of them.
    let json = ["json", "x-ndjson", "ndjson", "jsonl", "x-jsonlines"];
    let is_named = kind.eq_ignore_ascii_case("application")
        && json.iter().any(|name| subtype.eq_ignore_ascii_case(name));
    let suffix = subtype.rsplit_once('+').map_or("", |(_, suffix)| suffix);
    match is_named || suffix.eq_ignore_ascii_case("json") {
        true => Ok(false),
        false => Err(Unreadable::ContentType),
    }
}

// Written by hand, because the decompressor has no `Debug`.
impl fmt::Debug for BodyReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodyReader")
            .field("is_compressed", &self.gunzip.is_some())
            .field("scanners", &self.text.scanners)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
