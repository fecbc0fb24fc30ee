//! tidegate's access log with `format: text`: `2026-11-22T15:32:17.123456Z  INFO access: method="GET" status=200`.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::meaning::Meaning;
use crate::names::Names;
use crate::record::{Kind, Record, Span, Values};
use crate::time::{TimeReader, number};

/// Reads a line. Text before the time, such as a prefix of journald, is left out.
pub(crate) fn read(line: &[u8], names: &mut Names, values: &mut Values) -> Result<Kind, LineError> {
    let mut cursor = Cursor::new(line);
    let Some(marker) = memchr::memmem::find(line, b" access: ") else {
        return other(line, &mut values.times);
    };
    cursor.at = marker + b" access: ".len();
    let head = &line[..marker];
    let level = head.strip_suffix(b" INFO");
    let Some(head) = level.or_else(|| head.strip_suffix(b" WARN")) else {
        return other(line, &mut values.times);
    };
    let end = head.len() - head.iter().rev().take_while(|byte| **byte == b' ').count();
    let start = memchr::memrchr(b' ', &head[..end]).map_or(0, |blank| blank + 1);
    cursor.take(values, Meaning::End, Span::new(start, end, false))?;
    let mut lost = None;
    let mut place = Names::START;
    while cursor.at < line.len() {
        let name_at = cursor.at;
        let expected = names.expected(place).filter(|(name, _)| {
            let rest = cursor.rest();
            rest.starts_with(name) && rest.get(name.len()) == Some(&b'=')
        });
        let meaning = if let Some((name, meaning)) = expected {
            cursor.at += name.len() + 1;
            place = names.behind(place);
            meaning
        } else {
            let rest = cursor.rest();
            let name = memchr::memchr2(b'=', b' ', rest).map_or(rest, |length| &rest[..length]);
            cursor.at += name.len();
            // A message has words before its values, such as `12 lines lost lost=12`.
            if !cursor.skip(b"=") {
                if cursor.skip(b" ") && lost.is_none() && is_word(name) {
                    continue;
                }
                return Err(LineError::at(name_at, "expected name=value"));
            }
            let meaning;
            (meaning, place) = names.find(place, name);
            meaning
        };
        let span = if cursor.skip(b"\"") {
            let span = cursor.quoted()?;
            if cursor.at < line.len() {
                cursor.expect(b" ", "expected a blank behind the value")?;
            }
            span
        } else {
            cursor.word()
        };
        if meaning == Meaning::Lost {
            lost = number(span.bytes(line));
        }
        cursor.take(values, meaning, span)?;
    }
    match lost {
        Some(count) => Ok(Kind::Lost(count)),
        None if is_empty(&values.record) => Err(cursor.error("expected name=value")),
        None => Ok(Kind::Request),
    }
}

fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_alphanumeric)
}

/// Whether a line has only a time, because its rest was cut off.
fn is_empty(record: &Record) -> bool {
    record.status == 0 && record.texts.iter().all(|span| *span == Span::default())
}

/// Reads a line that is not in tidegate's access log. The line must have a time and a level.
fn other(line: &[u8], times: &mut TimeReader) -> Result<Kind, LineError> {
    let blank = memchr::memchr(b' ', line).unwrap_or(line.len());
    let (time, rest) = line.split_at(blank);
    let level = rest.trim_ascii_start();
    let mut levels = ["INFO ", "WARN ", "ERROR ", "DEBUG ", "TRACE "].into_iter();
    if levels.any(|word| level.starts_with(word.as_bytes())) && times.read(time).is_some() {
        return Ok(Kind::Other);
    }
    Err(LineError::at(0, "expected a time, a level and `access:`"))
}
