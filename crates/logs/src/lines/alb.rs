//! The access log of an AWS Application Load Balancer.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::field::Field;
use crate::meaning::{Meaning, Unit};
use crate::record::Values;

/// Reads `https 2026-11-22T15:32:17.186641Z app/name/id 192.0.2.7:2817 10.0.0.1:80 0.001 0.048 0.000 200 200 34 366 "request" "agent" …`.
pub(crate) fn read(line: &[u8], values: &mut Values) -> Result<(), LineError> {
    let mut cursor = Cursor::new(line);
    let kind = cursor.word();
    if !matches!(
        kind.bytes(line),
        b"http" | b"https" | b"h2" | b"grpcs" | b"ws" | b"wss"
    ) {
        let what = "expected http, https, h2, grpcs, ws or wss";
        return Err(LineError::at(0, what));
    }
    let before = [
        Meaning::End,
        Meaning::Skip,
        Meaning::PeerAndPort,
        Meaning::Skip,
    ];
    words(&mut cursor, values, &before)?;
    let duration = durations(&mut cursor)?;
    let behind = [
        Field::Status,
        Field::UpstreamStatus,
        Field::BytesIn,
        Field::BytesOut,
    ];
    words(&mut cursor, values, &behind.map(Meaning::Field))?;
    for (meaning, what) in [
        (Meaning::Request, "expected a request in quotes"),
        (Meaning::Header(0), "expected a user agent in quotes"),
    ] {
        cursor.expect(b"\"", what)?;
        let span = cursor.quoted()?;
        cursor.take(values, meaning, span)?;
        if cursor.at < line.len() {
            cursor.expect(b" ", "expected a blank behind the quotes")?;
        }
    }
    // Skips cipher, protocol, target group, trace, domain, certificate and a number. The time of arrival follows.
    words(&mut cursor, values, &[Meaning::Skip; 3])?;
    for _ in 0..3 {
        cursor.expect(b"\"", "expected a text in quotes")?;
        cursor.quoted()?;
        cursor.expect(b" ", "expected a blank behind the quotes")?;
    }
    words(&mut cursor, values, &[Meaning::Skip, Meaning::Start])?;
    values.record.duration = duration;
    Ok(())
}

fn words(
    cursor: &mut Cursor<'_>,
    values: &mut Values,
    meanings: &[Meaning],
) -> Result<(), LineError> {
    for meaning in meanings {
        let span = cursor.filled_word("expected a value")?;
        cursor.take(values, *meaning, span)?;
    }
    Ok(())
}

/// Returns the sum of three durations. `None` if a duration is unknown.
fn durations(cursor: &mut Cursor<'_>) -> Result<Option<u64>, LineError> {
    let mut sum = Some(0_u64);
    for _ in 0..3 {
        let span = cursor.word();
        let text = span.bytes(cursor.line);
        let part = Unit::Seconds.read(text);
        if part.is_none() && !text.starts_with(b"-") {
            let what = "expected a duration in seconds, of at most 31 days";
            return Err(LineError::at(span.start(), what));
        }
        sum = sum.zip(part).map(|(sum, part)| sum.saturating_add(part));
    }
    Ok(sum)
}
