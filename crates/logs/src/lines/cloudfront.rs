//! CloudFront's standard log. Tabs divide its columns, and a line `#Fields:` names them.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::field::{Field, Fields};
use crate::names::Names;
use crate::record::{Kind, Span, Values};
use crate::slot::{Slot, Unit};
use crate::text::Escape;

/// The columns of a log without a line `#Fields:`.
const COLUMNS: &str = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) \
    cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for \
    ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port \
    time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end";

/// Most columns of a log.
const MAX_COLUMNS: usize = 256;

/// The meanings of the columns.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    slots: Vec<Column>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The day, with the time in the next column.
    Date,
    Value(Slot),
    /// A value with escapes such as `%20`.
    Escaped(Slot),
}

impl Columns {
    pub(crate) fn new(names: &mut Names) -> Self {
        Self::named(COLUMNS, names)
    }

    fn named(text: &str, names: &mut Names) -> Self {
        let words = text.split_ascii_whitespace().take(MAX_COLUMNS);
        let mut slots: Vec<_> = words.map(|word| column(word, names)).collect();
        // A day counts only with a time after it.
        for at in 0..slots.len() {
            if slots[at] == Column::Date && slots.get(at + 1) != Some(&Column::Value(Slot::End)) {
                slots[at] = Column::Value(Slot::Skip);
            }
        }
        Self { slots }
    }

    /// Returns the fields in the columns.
    pub(crate) fn fields(&self, names: &Names) -> Fields {
        let mut fields = Fields::default();
        for column in &self.slots {
            if let Column::Value(slot) | Column::Escaped(slot) = column {
                slot.gives(&mut fields, names.headers());
            }
        }
        fields
    }

    /// Takes new columns from a line `#Fields:`. Returns false for any other line.
    pub(crate) fn rename(&mut self, line: &[u8], names: &mut Names) -> bool {
        let columns = line.strip_prefix(b"#Fields:");
        if let Some(columns) = columns {
            *self = Self::named(&String::from_utf8_lossy(columns), names);
        }
        columns.is_some()
    }

    pub(crate) fn read(&self, line: &[u8], values: &mut Values) -> Result<Kind, LineError> {
        values.record.escape = Escape::Percent;
        // A comment.
        if line.starts_with(b"#") {
            return Ok(Kind::Other);
        }
        let cursor = Cursor::new(line);
        let mut at = 0;
        let mut date = None;
        for (number, column) in self.slots.iter().enumerate() {
            let end = memchr::memchr(b'\t', &line[at..]).map_or(line.len(), |length| at + length);
            let start = date.take().unwrap_or(at);
            match column {
                Column::Date => date = Some(at),
                Column::Value(slot) => cursor.take(values, *slot, Span::new(start, end, false))?,
                Column::Escaped(slot) => {
                    let escaped = line[at..end].contains(&b'%');
                    cursor.take(values, *slot, Span::new(start, end, escaped))?;
                }
            }
            if end == line.len() && number + 1 < self.slots.len() {
                let what = "expected more columns, divided by tabs";
                return Err(LineError::at(end, what));
            }
            at = end + 1;
        }
        Ok(Kind::Request)
    }
}

fn column(name: &str, names: &mut Names) -> Column {
    Column::Value(match name {
        "date" => return Column::Date,
        "time" | "timestamp" | "timestamp(ms)" => Slot::End,
        "sc-bytes" => Slot::Field(Field::BytesOut),
        "cs-bytes" => Slot::Field(Field::BytesIn),
        "c-ip" => Slot::Field(Field::Peer),
        "cs-method" => Slot::Field(Field::Method),
        "x-host-header" => Slot::Field(Field::Host),
        "cs-uri-stem" => Slot::Field(Field::Path),
        "cs-uri-query" => Slot::Field(Field::Query),
        "sc-status" => Slot::Field(Field::Status),
        "cs-protocol" => Slot::Field(Field::Scheme),
        "cs-protocol-version" => Slot::Field(Field::Protocol),
        "time-taken" => Slot::Duration(Unit::Seconds),
        "x-edge-request-id" => Slot::Field(Field::Id),
        "x-forwarded-for" => return Column::Escaped(Slot::Field(Field::ForwardedFor)),
        "cs(Referer)" => return Column::Escaped(names.header("referer")),
        "cs(User-Agent)" => return Column::Escaped(names.header("user-agent")),
        "cs(Cookie)" => return Column::Escaped(names.header("cookie")),
        _ => Slot::Skip,
    })
}
