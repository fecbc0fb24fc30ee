//! CloudFront's standard log. Tabs divide its columns, and a line `#Fields:` names them.

use super::cursor::Cursor;
use crate::error::LineError;
use crate::field::{Field, Fields};
use crate::meaning::{Meaning, Unit};
use crate::names::Names;
use crate::record::{Kind, Span, Values};
use crate::text::Escape;

/// The columns of a log without a line `#Fields:`.
const COLUMNS: &str = "date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) \
    cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for \
    ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port \
    time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end";

/// The most columns of a log.
const MAX_COLUMNS: usize = 256;

/// The columns of a log, as its `#Fields` line names them.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The day, with the time in the next column.
    Date,
    Value(Meaning),
    /// A value with escapes such as `%20`.
    Escaped(Meaning),
}

impl Columns {
    pub(crate) fn new(names: &mut Names) -> Self {
        Self::named(COLUMNS, names)
    }

    fn named(text: &str, names: &mut Names) -> Self {
        let words = text.split_ascii_whitespace().take(MAX_COLUMNS);
        let mut columns: Vec<_> = words.map(|word| column(word, names)).collect();
        // A day is read only if the next column is the time.
        for at in 0..columns.len() {
            if columns[at] == Column::Date
                && columns.get(at + 1) != Some(&Column::Value(Meaning::End))
            {
                columns[at] = Column::Value(Meaning::Skip);
            }
        }
        Self { columns }
    }

    /// Returns the fields in the columns.
    pub(crate) fn fields(&self, names: &Names) -> Fields {
        let mut fields = Fields::default();
        for column in &self.columns {
            if let Column::Value(meaning) | Column::Escaped(meaning) = column {
                meaning.gives(&mut fields, names.headers());
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
        for (number, column) in self.columns.iter().enumerate() {
            let end = memchr::memchr(b'\t', &line[at..]).map_or(line.len(), |length| at + length);
            let start = date.take().unwrap_or(at);
            match column {
                Column::Date => date = Some(at),
                Column::Value(meaning) => {
                    cursor.take(values, *meaning, Span::new(start, end, false))?
                }
                Column::Escaped(meaning) => {
                    let escaped = line[at..end].contains(&b'%');
                    cursor.take(values, *meaning, Span::new(start, end, escaped))?;
                }
            }
            if end == line.len() && number + 1 < self.columns.len() {
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
        "time" | "timestamp" | "timestamp(ms)" => Meaning::End,
        "sc-bytes" => Meaning::Field(Field::BytesOut),
        "cs-bytes" => Meaning::Field(Field::BytesIn),
        "c-ip" => Meaning::Field(Field::Peer),
        "cs-method" => Meaning::Field(Field::Method),
        "x-host-header" => Meaning::Field(Field::Host),
        "cs-uri-stem" => Meaning::Field(Field::Path),
        "cs-uri-query" => Meaning::Field(Field::Query),
        "sc-status" => Meaning::Field(Field::Status),
        "cs-protocol" => Meaning::Field(Field::Scheme),
        "cs-protocol-version" => Meaning::Field(Field::Protocol),
        "time-taken" => Meaning::Duration(Unit::Seconds),
        "x-edge-request-id" => Meaning::Field(Field::Id),
        "x-forwarded-for" => return Column::Escaped(Meaning::Field(Field::ForwardedFor)),
        "cs(Referer)" => return Column::Escaped(names.header("referer")),
        "cs(User-Agent)" => return Column::Escaped(names.header("user-agent")),
        "cs(Cookie)" => return Column::Escaped(names.header("cookie")),
        _ => Meaning::Skip,
    })
}
