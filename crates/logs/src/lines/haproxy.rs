//! HAProxy's HTTP log, with or without a prefix of syslog.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::field::Field;
use crate::meaning::{Meaning, Unit};
use crate::record::{Span, Values};
use crate::text::Escape;

/// The length of `23/Nov/2026:12:14:35.504`, in bytes.
const TIME: usize = 24;

/// Reads `192.0.2.7:4711 [23/Nov/2026:12:14:35.504] www api/s1 0/0/0/2/2 200 120 - - ---- 1/1/0/0/0 0/0 {captured} "GET / HTTP/1.1"`.
pub(crate) fn read(line: &[u8], values: &mut Values) -> Result<(), LineError> {
    values.record.escape = Escape::Hash;
    let mut cursor = Cursor::new(line);
    let Some(open) = time(line) else {
        return Err(cursor.error(
            "expected an address with a port, and a time such as [23/Nov/2026:12:14:35.504]",
        ));
    };
    let start = memchr::memrchr(b' ', &line[..open - 1]).map_or(0, |blank| blank + 1);
    let peer = Span::new(start, open - 1, false);
    cursor.take(values, Meaning::PeerAndPort, peer)?;
    let time = Span::new(open + 1, open + 1 + TIME, false);
    cursor.take(values, Meaning::Start, time)?;
    cursor.at = open + TIME + 3;
    let frontend = cursor.word();
    // Skips the server.
    cursor.word();
    durations(&mut cursor, values)?;
    for (meaning, what) in [
        (
            Meaning::Field(Field::Status),
            "expected a status, such as 200",
        ),
        (
            Meaning::Field(Field::BytesOut),
            "expected a number of bytes",
        ),
    ] {
        // With `option logasap` a `+` precedes the bytes sent so far.
        cursor.skip(b"+");
        let span = cursor.filled_word(what)?;
        cursor.take(values, meaning, span)?;
    }
    // Skips two cookies, the state at the end, connections, and queues.
    for _ in 0..5 {
        cursor.word();
    }
    while cursor.skip(b"{") {
        let Some(length) = memchr::memmem::find(cursor.rest(), b"} ") else {
            return Err(cursor.error("expected a `}` behind captured headers"));
        };
        cursor.at += length + 2;
    }
    cursor.expect(b"\"", "expected a request in quotes")?;
    let rest = cursor.rest();
    // HAProxy cuts a long line, so the last quote may be missing.
    let request = rest.strip_suffix(b"\"").unwrap_or(rest);
    let escaped = request.contains(&b'#');
    let span = Span::new(cursor.at, cursor.at + request.len(), escaped);
    cursor.take(values, Meaning::Request, span)?;
    if frontend.is_empty() {
        return Err(cursor.error("expected the name of a frontend"));
    }
    Ok(())
}

/// Returns the place of the bracket before the time.
fn time(line: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'[', line).find(|open| {
        let text = line.get(open + 1..open + TIME + 3);
        let is_time = text.is_some_and(|text| {
            text.ends_with(b"] ") && text[2] == b'/' && text[6] == b'/' && text[20] == b'.'
        });
        is_time && *open > 1 && line[open - 1] == b' '
    })
}

/// Reads `0/0/0/2/2`: the last number is the total. A `+` marks a request that has not ended.
fn durations(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    let span = cursor.word();
    let text = span.bytes(cursor.line);
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'/' | b'-' | b'+');
    let Some(last) = memchr::memrchr(b'/', text).filter(|_| text.iter().all(is_part)) else {
        let what = "expected durations, such as 0/0/0/2/2";
        return Err(LineError::at(span.start(), what));
    };
    let mut start = span.start() + last + 1;
    start += usize::from(cursor.line.get(start) == Some(&b'+'));
    let whole = Span::new(start, span.end(), false);
    cursor.take(values, Meaning::Duration(Unit::Milliseconds), whole)
}
