//! Envoy's default format. Envoy escapes nothing: what a client sent may hold quotes.

use super::cursor::Cursor;
use crate::address::address;
use crate::error::LineError;
use crate::field::Field;
use crate::record::{Record, Span};
use crate::slot::{Slot, Unit};
use crate::time::TimeReader;

/// The headers of lines, by their numbers.
pub(crate) const HEADERS: [&str; 1] = ["user-agent"];

/// Reads `[time] "GET /path HTTP/1.1" 200 - 0 6 3 2 "forwarded for" "user agent" "id" "host" "server"`.
pub(crate) fn read(
    line: &[u8],
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let mut cursor = Cursor::new(line);
    cursor.expect(b"[", "expected `[` and a time")?;
    let close = memchr::memmem::find(line, b"] \"");
    let Some(close) = close else {
        return Err(cursor.error("expected a time in brackets, and a request in quotes"));
    };
    cursor.take(record, Slot::Start, Span::new(1, close, false), times)?;
    cursor.at = close + 3;
    request(&mut cursor, record, times)?;
    let status = cursor.word();
    cursor.take(record, Slot::Status, status, times)?;
    // Flags, such as `NR`.
    let flags = cursor.word();
    for slot in [
        Slot::BytesIn,
        Slot::BytesOut,
        Slot::Duration(Unit::Milliseconds),
    ] {
        let span = cursor.word();
        cursor.take(record, slot, span, times)?;
    }
    // How long the upstream took.
    cursor.word();
    if status.bytes(line).is_empty() || flags.bytes(line).is_empty() || !cursor.skip(b"\"") {
        return Err(
            cursor.error("expected a status, flags, two sizes, two durations, and texts in quotes")
        );
    }
    texts(&cursor, record, times)
}

/// `GET /path HTTP/1.1" `; a path may have quotes, but no blanks.
fn request(
    cursor: &mut Cursor<'_>,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let line = cursor.line;
    let method = cursor.word();
    let target = cursor.word();
    let start = cursor.at;
    let Some(length) = memchr::memmem::find(cursor.rest(), b"\" ") else {
        return Err(cursor.error("expected a protocol, and a `\"` behind it"));
    };
    cursor.at += length + 2;
    cursor.take(record, Slot::Text(Field::Method), method, times)?;
    cursor.take(record, Slot::Target, target, times)?;
    let protocol = Span::new(start, start + length, false);
    if protocol.bytes(line).contains(&b' ') {
        cursor.at = start;
        return Err(cursor.error("expected a protocol, and a `\"` behind it"));
    }
    cursor.take(record, Slot::Text(Field::Protocol), protocol, times)
}

/// The texts in quotes: the last three are read backwards, because the first two may hold anything.
fn texts(
    cursor: &Cursor<'_>,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let error = || {
        cursor
            .error("expected five texts in quotes: forwarded for, user agent, ID, host and server")
    };
    let (line, start) = (cursor.line, cursor.at);
    let mut end = line
        .len()
        .checked_sub(1)
        .filter(|end| *end >= start && line[*end] == b'"')
        .ok_or_else(error)?;
    for slot in [Slot::Skip, Slot::Text(Field::Host), Slot::Text(Field::Id)] {
        let divided = memchr::memmem::rfind(&line[start..end], b"\" \"").ok_or_else(error)?;
        let at = start + divided;
        cursor.take(record, slot, Span::new(at + 3, end, false), times)?;
        end = at;
    }
    let divided = between(&line[start..end]).ok_or_else(error)?;
    let forwarded_for = Span::new(start, start + divided, false);
    cursor.take(
        record,
        Slot::Text(Field::ForwardedFor),
        forwarded_for,
        times,
    )?;
    cursor.take(
        record,
        Slot::Header(0),
        Span::new(start + divided + 3, end, false),
        times,
    )
}

/// Where `" "` divides the addresses from the user agent: behind an address or `-`, if there is such a place.
fn between(text: &[u8]) -> Option<usize> {
    let mut first = None;
    for at in memchr::memmem::find_iter(text, b"\" \"") {
        let last = text[..at]
            .rsplit(|byte| *byte == b',')
            .next()
            .unwrap_or_default();
        if matches!(&text[..at], b"-") || address(last.trim_ascii()).is_some() {
            return Some(at);
        }
        first = first.or(Some(at));
    }
    first
}
