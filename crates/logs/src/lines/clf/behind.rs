//! The fields of formats that continue after the user agent.

use crate::error::LineError;
use crate::field::Field;
use crate::lines::cursor::Cursor;
use crate::meaning::{Meaning, Unit};
use crate::record::{Span, Values};

/// Reads ` "forwarded for"`, and perhaps durations after it.
pub(super) fn main(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    cursor.expect(b" \"", "expected X-Forwarded-For in quotes")?;
    let hops = cursor.quoted()?;
    cursor.take(values, Meaning::Field(Field::ForwardedFor), hops)?;
    match cursor.peek() {
        None => Ok(()),
        Some(_) => durations(cursor, values),
    }
}

/// Reads a duration: ` 0.005` in seconds (nginx), or ` 0/5123` in seconds and microseconds (Apache). An integer has no known unit and is
/// left out.
pub(super) fn durations(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    cursor.expect(b" ", "expected a duration")?;
    let line = cursor.line;
    let span = cursor.word();
    let text = span.bytes(line);
    let is_whole = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let parts = |divider: u8| {
        let at = memchr::memchr(divider, text)?;
        (is_whole(&text[..at]) && is_whole(&text[at + 1..])).then_some(at)
    };
    if let Some(slash) = parts(b'/') {
        let micros = Span::new(span.start() + slash + 1, span.end(), false);
        cursor.take(values, Meaning::Duration(Unit::Microseconds), micros)?;
        // Only Apache writes this form, and its time is the time of arrival.
        values.record.started = values.record.ended.take();
    } else if parts(b'.').is_some() {
        cursor.take(values, Meaning::Duration(Unit::Seconds), span)?;
        // Durations of upstreams may follow, such as `0.004, 0.001`.
        let is_part =
            |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b',' | b':' | b'-' | b' ');
        if cursor.rest().iter().all(is_part) {
            cursor.at = line.len();
        }
    } else if !is_whole(text) && text != b"-" {
        let what = "expected a duration, such as 0.005";
        return Err(LineError::at(span.start(), what));
    }
    Ok(())
}

/// Reads ` 421 0.005 [upstream] [] 10.0.0.1:80 2326 0.004 200 id`. Lists of several upstreams have commas and blanks, so the end is read
/// backwards.
pub(super) fn ingress(cursor: &mut Cursor<'_>, values: &mut Values) -> Result<(), LineError> {
    let line = cursor.line;
    let what = "expected the length of the request";
    cursor.expect(b" ", what)?;
    let length = cursor.filled_word(what)?;
    cursor.take(values, Meaning::Field(Field::BytesIn), length)?;
    let duration = cursor.filled_word("expected a duration in seconds")?;
    cursor.take(values, Meaning::Duration(Unit::Seconds), duration)?;
    for _ in 0..2 {
        let close = memchr::memchr(b']', cursor.rest());
        let Some(close) = close.filter(|_| cursor.peek() == Some(b'[')) else {
            return Err(cursor.error("expected the name of an upstream in brackets"));
        };
        cursor.at += close + 1;
        cursor.expect(b" ", "expected a blank behind the brackets")?;
    }
    let mut words = cursor.rest().rsplit(|byte| *byte == b' ');
    // The upstream, its size and its duration stand before the status.
    let (Some(id), Some(status), Some(_)) = (words.next(), words.next(), words.nth(2)) else {
        return Err(
            cursor.error("expected an upstream with its size, duration and status, and an ID")
        );
    };
    let id = Span::new(line.len() - id.len(), line.len(), false);
    let end = id.start() - 1;
    let status = Span::new(end - status.len(), end, false);
    cursor.take(values, Meaning::Field(Field::UpstreamStatus), status)?;
    cursor.take(values, Meaning::Field(Field::Id), id)?;
    cursor.at = line.len();
    Ok(())
}
