//! Envoy's default format. Envoy has no escapes: texts of clients may have quotes.

use super::cursor::Cursor;
use crate::address::address;
use crate::error::LineError;
use crate::field::Field;
use crate::meaning::{Meaning, Unit};
use crate::record::{Span, Values};

/// Reads `[time] "GET /path HTTP/1.1" 200 - 0 6 3 2 "forwarded for" "user agent" "id" "host" "server"`.
pub(crate) fn read(line: &[u8], values: &mut Values) -> Result<(), LineError> {
    let mut cursor = Cursor::new(line);
    cursor.expect(b"[", "expected `[` and a time")?;
    let Some(close) = memchr::memmem::find(line, b"] \"") else {
        return Err(cursor.error("expected a time in brackets, and a request in quotes"));
    };
    cursor.take(values, Meaning::Start, Span::new(1, close, false))?;
    cursor.at = close + 3;
    request(&mut cursor, values)?;
    let status = cursor.word();
    cursor.take(values, Meaning::Field(Field::Status), status)?;
    // Flags, such as `NR`.
    let flags = cursor.word();
    for meaning in [
        Meaning::Field(Field::BytesIn),
        Meaning::Field(Field::BytesOut),
        Meaning::Duration(Unit::Milliseconds),
    ] {
        let span = cursor.word();
        cursor.take(values, meaning, span)?;
    }
    // Skips the upstream's time.
    cursor.word();
    if status.is_empty() || flags.is_empty() || !cursor.skip(b"\"") {
        return Err(
            cursor.error("expected a status, flags, two sizes, two durations, and texts in quotes")
        );
    }
    texts(&cursor, values)
}

/// Reads `GET /path HTTP/1.1" `. A path may have quotes, but no blanks.
fn request(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    let method = cursor.word();
    let target = cursor.word();
    let start = cursor.at;
    let error = cursor.error("expected a protocol, and a `\"` behind it");
    let length = memchr::memmem::find(cursor.rest(), b"\" ").ok_or(error)?;
    cursor.at += length + 2;
    cursor.take(values, Meaning::Field(Field::Method), method)?;
    cursor.take(values, Meaning::Target, target)?;
    let protocol = Span::new(start, start + length, false);
    if protocol.bytes(cursor.line).contains(&b' ') {
        return Err(error);
    }
    cursor.take(values, Meaning::Field(Field::Protocol), protocol)
}

/// Reads the texts in quotes: the last three backwards, because clients choose the first two, which may have any bytes.
fn texts(cursor: &Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    let error = cursor
        .error("expected five texts in quotes: forwarded for, user agent, ID, host and server");
    let (line, start) = (cursor.line, cursor.at);
    let mut end = line
        .len()
        .checked_sub(1)
        .filter(|end| *end >= start && line[*end] == b'"')
        .ok_or(error)?;
    for meaning in [
        Meaning::Skip,
        Meaning::Field(Field::Host),
        Meaning::Field(Field::Id),
    ] {
        let divided = memchr::memmem::rfind(&line[start..end], b"\" \"").ok_or(error)?;
        let at = start + divided;
        cursor.take(values, meaning, Span::new(at + 3, end, false))?;
        end = at;
    }
    let divided = between(&line[start..end]).ok_or(error)?;
    let forwarded_for = Span::new(start, start + divided, false);
    cursor.take(values, Meaning::Field(Field::ForwardedFor), forwarded_for)?;
    let agent = Span::new(start + divided + 3, end, false);
    cursor.take(values, Meaning::Header(0), agent)
}

/// Returns the place of `" "` between the addresses and the user agent: the first place after an address or `-`. If there is no such place,
/// returns the first place.
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
