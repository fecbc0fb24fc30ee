//! The access log of an AWS Application Load Balancer.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::record::{Record, Span};
use crate::slot::{Slot, Unit};
use crate::time::TimeReader;

/// The headers of lines, by their numbers.
pub(crate) const HEADERS: [&str; 1] = ["user-agent"];

/// Reads `https 2026-11-22T15:32:17.186641Z app/name/id 192.0.2.7:2817 10.0.0.1:80 0.001 0.048 0.000 200 200 34 366 "request" "agent" …`.
pub(crate) fn read(
    line: &[u8],
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    let mut cursor = Cursor::new(line);
    let kind = cursor.word();
    if !matches!(
        kind.bytes(line),
        b"http" | b"https" | b"h2" | b"grpcs" | b"ws" | b"wss"
    ) {
        cursor.at = 0;
        return Err(cursor.error("expected http, https, h2, grpcs, ws or wss"));
    }
    let slots = [Slot::End, Slot::Skip, Slot::PeerAndPort, Slot::Skip];
    words(&mut cursor, &slots, record, times)?;
    let duration = durations(&mut cursor)?;
    words(
        &mut cursor,
        &[
            Slot::Status,
            Slot::UpstreamStatus,
            Slot::BytesIn,
            Slot::BytesOut,
        ],
        record,
        times,
    )?;
    for (slot, what) in [
        (Slot::Request, "expected a request in quotes"),
        (Slot::Header(0), "expected a user agent in quotes"),
    ] {
        cursor.expect(b"\"", what)?;
        let span = cursor.quoted()?;
        cursor.take(record, slot, span, times)?;
        if cursor.at < line.len() {
            cursor.expect(b" ", "expected a blank behind the quotes")?;
        }
    }
    // Cipher, protocol, target group; trace, domain, certificate; a number, and when the request arrived.
    words(&mut cursor, &[Slot::Skip; 3], record, times)?;
    for _ in 0..3 {
        cursor.expect(b"\"", "expected a text in quotes")?;
        cursor.quoted()?;
        cursor.expect(b" ", "expected a blank behind the quotes")?;
    }
    words(&mut cursor, &[Slot::Skip, Slot::Start], record, times)?;
    if let Some(duration) = duration {
        record.set_duration(duration);
    }
    Ok(())
}

fn words(
    cursor: &mut Cursor<'_>,
    slots: &[Slot],
    record: &mut Record,
    times: &mut TimeReader,
) -> Result<(), LineError> {
    for slot in slots {
        let span = cursor.word();
        if span.bytes(cursor.line).is_empty() {
            cursor.at = span.start();
            return Err(cursor.error("expected a value"));
        }
        cursor.take(record, *slot, span, times)?;
    }
    Ok(())
}

/// Three durations, whose sum is the whole; none if one of them is not known.
fn durations(cursor: &mut Cursor<'_>) -> Result<Option<u64>, LineError> {
    let mut sum = Some(0_u64);
    for _ in 0..3 {
        let span: Span = cursor.word();
        let text = span.bytes(cursor.line);
        let part = Unit::Seconds.read(text);
        if part.is_none() && !text.starts_with(b"-") {
            cursor.at = span.start();
            return Err(cursor.error("expected a duration in seconds, of at most 31 days"));
        }
        sum = sum.zip(part).map(|(sum, part)| sum.saturating_add(part));
    }
    Ok(sum)
}
