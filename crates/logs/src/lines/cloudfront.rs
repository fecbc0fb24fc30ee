//! CloudFront's standard log: columns divided by tabs, which a line `#Fields:` names.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::field::{Field, Fields};
use crate::names::Names;
use crate::record::{Record, Span};
use crate::slot::{Slot, Unit};
use crate::text::Escape;
use crate::time::TimeReader;

/// The columns of a log that names none.
const COLUMNS: &str = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) \
    cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for \
    ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port \
    time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end";

/// The most columns.
const MAX_COLUMNS: usize = 256;

/// What the columns are.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    slots: Vec<Column>,
}

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    /// It says what the columns are from now on.
    Columns,
    Comment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The day, with the time in the next column.
    Date,
    Value(Slot),
    /// The same, with `%NN`.
    Escaped(Slot),
}

impl Columns {
    pub(crate) fn new(names: &mut Names) -> Self {
        Self::named(COLUMNS, names)
    }

    fn named(text: &str, names: &mut Names) -> Self {
        let words = text.split_ascii_whitespace().take(MAX_COLUMNS);
        let mut slots: Vec<_> = words.map(|word| column(word, names)).collect();
        // A day without a time behind it is none.
        let lone = (0..slots.len()).filter(|at| {
            slots[*at] == Column::Date && slots.get(at + 1) != Some(&Column::Value(Slot::End))
        });
        let lone: Vec<_> = lone.collect();
        lone.into_iter()
            .for_each(|at| slots[at] = Column::Value(Slot::Skip));
        Self { slots }
    }

    /// The fields that the columns give.
    pub(crate) fn fields(&self, names: &Names) -> Fields {
        let mut fields = Fields::default();
        for column in &self.slots {
            if let Column::Value(slot) | Column::Escaped(slot) = column {
                slot.gives(&mut fields, names.headers());
            }
        }
        fields
    }

    /// Reads a line; what it is.
    pub(crate) fn read(
        &mut self,
        line: &[u8],
        names: &mut Names,
        record: &mut Record,
        times: &mut TimeReader,
    ) -> Result<Kind, LineError> {
        record.escape = Escape::Percent;
        if let Some(comment) = line.strip_prefix(b"#") {
            if let Some(columns) = comment.strip_prefix(b"Fields:") {
                *self = Self::named(&String::from_utf8_lossy(columns), names);
                return Ok(Kind::Columns);
            }
            return Ok(Kind::Comment);
        }
        let cursor = Cursor::new(line);
        let mut at = 0;
        let mut date = None;
        let mut number = 0;
        for column in &self.slots {
            let end = memchr::memchr(b'\t', &line[at..]).map_or(line.len(), |length| at + length);
            let span = |escaped| Span::new(date.unwrap_or(at), end, escaped);
            match column {
                Column::Date => date = Some(at),
                Column::Value(slot) => {
                    cursor.take(record, *slot, span(false), times)?;
                    date = None;
                }
                Column::Escaped(slot) => {
                    cursor.take(record, *slot, span(line[at..end].contains(&b'%')), times)?;
                    date = None;
                }
            }
            number += 1;
            if end == line.len() {
                break;
            }
            at = end + 1;
        }
        if number < self.slots.len() {
            return Err(LineError {
                column: line.len() + 1,
                what: "expected more columns, divided by tabs",
            });
        }
        Ok(Kind::Request)
    }
}

fn column(name: &str, names: &mut Names) -> Column {
    Column::Value(match name {
        "date" => return Column::Date,
        "time" | "timestamp" | "timestamp(ms)" => Slot::End,
        "sc-bytes" => Slot::BytesOut,
        "cs-bytes" => Slot::BytesIn,
        "c-ip" => Slot::Peer,
        "cs-method" => Slot::Text(Field::Method),
        "x-host-header" => Slot::Text(Field::Host),
        "cs-uri-stem" => Slot::Text(Field::Path),
        "cs-uri-query" => Slot::Text(Field::Query),
        "sc-status" => Slot::Status,
        "cs-protocol" => Slot::Text(Field::Scheme),
        "cs-protocol-version" => Slot::Text(Field::Protocol),
        "time-taken" => Slot::Duration(Unit::Seconds),
        "x-edge-request-id" => Slot::Text(Field::Id),
        "x-forwarded-for" => return Column::Escaped(Slot::Text(Field::ForwardedFor)),
        "cs(Referer)" => return Column::Escaped(names.header("referer")),
        "cs(User-Agent)" => return Column::Escaped(names.header("user-agent")),
        "cs(Cookie)" => return Column::Escaped(names.header("cookie")),
        _ => Slot::Skip,
    })
}
