//! The fields of formats that go on behind the user agent.

use crate::error::LineError;
use crate::field::Field;
use crate::lines::cursor::Cursor;
use crate::record::{Record, Span};
use crate::slot::{Slot, Unit};
use crate::time::TimeReader;

/// Reads ` "forwarded for"`, and perhaps durations behind it.
pub(super) fn main(
    cursor: &mut Cursor<'_>,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    cursor.expect(b" \"", "expected X-Forwarded-For in quotes")?;
    let hops = cursor.quoted()?;
    cursor.take(record, Slot::Text(Field::ForwardedFor), hops, times)?;
    match cursor.peek() {
        None => Ok(()),
        Some(_) => durations(cursor, record, times),
    }
}

/// Reads a duration: ` 0.005` in seconds (nginx), or ` 0/5123` in seconds and microseconds (Apache). An integer has no known unit and is
/// left out. Durations of upstreams may follow seconds.
pub(super) fn durations(
    cursor: &mut Cursor<'_>,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    cursor.expect(b" ", "expected a duration")?;
    let line = cursor.line;
    let span = cursor.word();
    let text = span.bytes(line);
    let is_whole = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let parts = |divider: u8| {
        let at = memchr::memchr(divider, text)?;
        let (before, behind) = (&text[..at], &text[at + 1..]);
        (is_whole(before) && is_whole(behind)).then_some(at)
    };
    if let Some(slash) = parts(b'/') {
        let micros = Span::new(span.start() + slash + 1, span.end(), false);
        cursor.take(record, Slot::Duration(Unit::Microseconds), micros, times)?;
        // Apache writes the time of the arrival.
        record.set_started_at_end();
    } else if parts(b'.').is_some() {
        cursor.take(record, Slot::Duration(Unit::Seconds), span, times)?;
        upstreams(cursor);
    } else if !is_whole(text) && text != b"-" {
        cursor.at = span.start();
        return Err(cursor.error("expected a duration, such as 0.005"));
    }
    Ok(())
}

/// Steps over the durations of upstreams, such as `0.004, 0.001`.
fn upstreams(cursor: &mut Cursor<'_>) {
    let is_part =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b':' | b'-' | b' ');
    if cursor.rest().iter().all(is_part) {
        cursor.at = cursor.line.len();
    }
}

/// Reads ` 421 0.005 [upstream] [] 10.0.0.1:80 2326 0.004 200 id`. Lists of several upstreams have commas and blanks, so the end is read
/// backwards.
pub(super) fn ingress(
    cursor: &mut Cursor<'_>,
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let line = cursor.line;
    cursor.expect(b" ", "expected the length of the request")?;
    for (slot, what) in [
        (Slot::BytesIn, "expected the length of the request"),
        (
            Slot::Duration(Unit::Seconds),
            "expected a duration in seconds",
        ),
    ] {
        let span = cursor.word();
        if span.bytes(line).is_empty() {
            cursor.at = span.start();
            return Err(cursor.error(what));
        }
        cursor.take(record, slot, span, times)?;
    }
    for _ in 0..2 {
        let close = memchr::memchr(b']', cursor.rest());
        let Some(close) = close.filter(|_| cursor.peek() == Some(b'[')) else {
            return Err(cursor.error("expected the name of an upstream in brackets"));
        };
        cursor.at += close + 1;
        cursor.expect(b" ", "expected a blank behind the brackets")?;
    }
    let start = cursor.at;
    let words = line[start..].rsplit(|byte| *byte == b' ');
    let mut end = line.len();
    let mut spans = words.map(|word| {
        let span = Span::new(end - word.len(), end, false);
        end = (end - word.len()).saturating_sub(1);
        span
    });
    let (Some(id), Some(status), Some(_), Some(_), Some(_)) = (
        spans.next(),
        spans.next(),
        spans.next(),
        spans.next(),
        spans.next(),
    ) else {
        return Err(
            cursor.error("expected an upstream with its size, duration and status, and an ID")
        );
    };
    cursor.take(record, Slot::UpstreamStatus, status, times)?;
    cursor.take(record, Slot::Text(Field::Id), id, times)?;
    cursor.at = line.len();
    Ok(())
}
