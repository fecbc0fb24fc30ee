//! Lines that are objects of JSON.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::meaning::Meaning;
use crate::names::{Names, Place};
use crate::record::{Span, Values};

/// The names of a line, and of the objects in it that have wanted members. The first entry is the line itself.
pub(crate) type Objects = Vec<Names>;

/// The most levels of nested objects and arrays.
const MAX_DEPTH: u32 = 128;

/// Reads a line. Returns tidegate's count of lost lines, and the log that the line belongs to.
pub(crate) fn read(
    line: &[u8],
    objects: &mut Objects,
    values: &mut Values,
) -> Result<Seen, LineError> {
    let mut cursor = Cursor::new(line);
    skip_blanks(&mut cursor);
    let mut seen = Seen::default();
    object(&mut cursor, 0, objects, values, &mut seen)?;
    skip_blanks(&mut cursor);
    if cursor.at < line.len() {
        return Err(cursor.error("expected nothing behind the object"));
    }
    Ok(seen)
}

/// Values that decide whether a line is a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) lost: Option<Span>,
    /// The log that the line belongs to: `target` in tidegate's lines, `logger` in Caddy's lines.
    pub(crate) target: Span,
}

fn object(
    cursor: &mut Cursor<'_>,
    number: usize,
    objects: &mut Objects,
    values: &mut Values,
    seen: &mut Seen,
) -> Result<(), LineError> {
    cursor.expect(b"{", "expected an object, such as {\"status\":200}")?;
    let mut place = Names::START;
    skip_blanks(cursor);
    if cursor.skip(b"}") {
        return Ok(());
    }
    loop {
        let meaning;
        (meaning, place) = name(cursor, number, objects, place)?;
        match meaning {
            // An object can refer only to objects after it, so that the recursion ends.
            Meaning::Object(inner)
                if cursor.peek() == Some(b'{') && usize::from(inner) > number =>
            {
                object(cursor, inner.into(), objects, values, seen)?;
            }
            meaning => {
                let is_number = cursor.peek() != Some(b'"');
                let span = match cursor.peek() {
                    Some(b'[') if meaning != Meaning::Skip => only(cursor)?,
                    _ => value(cursor)?,
                };
                match meaning {
                    Meaning::Lost => seen.lost = Some(span),
                    Meaning::Log => seen.target = span,
                    _ => {}
                }
                if meaning != Meaning::Skip && !is_nothing(span.bytes(cursor.line)) {
                    cursor.take(values, meaning, span)?;
                    if is_number {
                        values.record.complete_fraction(meaning);
                    }
                }
            }
        }
        skip_blanks(cursor);
        if cursor.skip(b",") {
            skip_blanks(cursor);
        } else {
            return cursor.expect(b"}", "expected `,` or `}`");
        }
    }
}

/// Steps over a member's name and its colon.
fn name(
    cursor: &mut Cursor<'_>,
    number: usize,
    objects: &mut Objects,
    place: Place,
) -> Result<(Meaning, Place), LineError> {
    let Some(names) = objects.get_mut(number) else {
        return Err(cursor.error("expected no object"));
    };
    cursor.expect(b"\"", "expected the name of a member in quotes")?;
    // Most lines have the same names in the same order.
    if let Some((text, meaning)) = names.expected(place)
        && cursor.rest().starts_with(text)
        && cursor.rest()[text.len()..].starts_with(b"\":")
    {
        cursor.at += text.len() + 2;
        skip_blanks(cursor);
        return Ok((meaning, names.behind(place)));
    }
    let span = cursor.quoted()?;
    skip_blanks(cursor);
    cursor.expect(b":", "expected `:` behind the name of a member")?;
    skip_blanks(cursor);
    Ok(names.find(place, span.bytes(cursor.line)))
}

/// Steps over a value. Returns a string without its quotes. Returns an empty span for an object or array.
fn value(cursor: &mut Cursor<'_>) -> Result<Span, LineError> {
    match cursor.peek() {
        Some(b'"') => {
            cursor.at += 1;
            cursor.quoted()
        }
        Some(b'{' | b'[') => {
            nested(cursor)?;
            Ok(Span::new(cursor.at, cursor.at, false))
        }
        _ => {
            let start = cursor.at;
            let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r');
            let length = cursor.rest().iter().position(is_end);
            cursor.at = length.map_or(cursor.line.len(), |length| start + length);
            if cursor.at == start || !is_bare(&cursor.line[start..cursor.at]) {
                return Err(LineError::at(start, "expected a value"));
            }
            Ok(Span::new(start, cursor.at, false))
        }
    }
}

/// Steps over an array, and returns its only value. Some logs write a request header as an array with one element for each header line.
fn only(cursor: &mut Cursor<'_>) -> Result<Span, LineError> {
    let start = cursor.at;
    cursor.at += 1;
    skip_blanks(cursor);
    if let Some(b']' | b'{' | b'[') = cursor.peek() {
        cursor.at = start;
        return value(cursor);
    }
    let span = value(cursor)?;
    skip_blanks(cursor);
    if cursor.peek() == Some(b',') {
        return Err(cursor.error("expected an array of one value"));
    }
    cursor.expect(b"]", "expected `]` behind the value")?;
    Ok(span)
}

/// Whether this is a number, `true`, `false` or `null`. nginx may write a variable without quotes, and `-` for a missing value, so `-` is
/// allowed, too.
fn is_bare(text: &[u8]) -> bool {
    let is_part =
        |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    matches!(text, b"true" | b"false" | b"null") || text.iter().all(is_part)
}

fn is_nothing(text: &[u8]) -> bool {
    matches!(text, b"null" | b"true" | b"false")
}

/// Steps over an unwanted object or array.
fn nested(cursor: &mut Cursor<'_>) -> Result<(), LineError> {
    let mut depth = 0_u32;
    let start = *cursor;
    while let Some(byte) = cursor.peek() {
        cursor.at += 1;
        match byte {
            b'"' => {
                cursor.quoted()?;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(cursor.error("expected fewer objects and arrays in each other"));
                }
            }
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
    Err(start.error("expected the end of this object or array"))
}

fn skip_blanks(cursor: &mut Cursor<'_>) {
    while let Some(b' ' | b'\t' | b'\r') = cursor.peek() {
        cursor.at += 1;
    }
}
