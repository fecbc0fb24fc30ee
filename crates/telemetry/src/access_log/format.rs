//! The format of a line. The format is compiled into a list of pieces when the access log starts.

#[cfg(test)]
mod tests;

use std::io::Write as _;

use super::settings::{AccessField, AccessFormat, AccessPiece};
use super::style::Style;
use super::timestamp::Clock;
use super::value::Value;

/// The Common Log Format, such as
/// `127.0.0.1 - api_key:acme [22/Nov/2026:15:32:17 +0000] "GET /path HTTP/1.1" 200 2326`.
const COMMON: &str =
    r#"$client_ip - $client [$time_local] "$method $path $protocol" $status $bytes_out"#;
/// The fields that the Combined Log Format adds to the Common Log Format.
const COMBINED: &str = r#" "$referer" "$user_agent""#;

/// A compiled format.
#[derive(Debug)]
pub(super) struct Format {
    kind: Kind,
    pieces: Box<[Piece]>,
    /// Whether the format has a field that shows the number of lost lines: `lost` or `path`.
    tells_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The text format of `tracing-subscriber`. The log of the process has the same format, so one parser reads both logs.
    Text,
    /// The JSON format of `tracing-subscriber`, for the same reason.
    Json,
    /// A template: a line has only the pieces.
    Template,
}

#[derive(Debug)]
enum Piece {
    /// Literal text.
    Text(Box<[u8]>),
    /// A field's name and value, if there is a value.
    Named(Name, AccessField),
    /// A field's value, or `-`.
    Bare(AccessField, Style),
}

/// The text before the value of a named field. The array has a fixed length, because a copy of a fixed length takes fewer instructions.
#[derive(Debug)]
struct Name {
    bytes: [u8; Self::MAX],
    length: usize,
}

impl Name {
    /// The most bytes of a field's name with its punctuation.
    const MAX: usize = 24;

    /// Returns the text, or `None` if it is longer than [`Name::MAX`].
    fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::MAX];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(Self {
            bytes,
            length: text.len(),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.length;
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }
}

/// The values of the fields of a line.
pub(crate) trait Fields {
    /// Returns the value of a field, if there is one.
    fn value(&self, field: AccessField) -> Option<Value<'_>>;
}

impl Format {
    /// Compiles a format.
    pub(super) fn new(format: &AccessFormat) -> Self {
        let (kind, pieces) = match format {
            AccessFormat::Text(fields) => (Kind::Text, named(fields, " ", "=")),
            AccessFormat::Json(fields) => (Kind::Json, named(fields, ",\"", "\":")),
            AccessFormat::Common => (Kind::Template, pieces_of(COMMON)),
            AccessFormat::Combined => (Kind::Template, pieces_of(&[COMMON, COMBINED].concat())),
            AccessFormat::Template(pieces) => (Kind::Template, bare(pieces, Style::Plain)),
        };
        let pieces: Box<[Piece]> = pieces.into();
        let tells = [AccessField::Lost, AccessField::Path];
        let tells_lost = pieces
            .iter()
            .filter_map(Piece::field)
            .any(|field| tells.contains(&field));
        Self {
            kind,
            pieces,
            tells_lost,
        }
    }

    /// Whether lines contain this field.
    pub(super) fn has(&self, field: AccessField) -> bool {
        self.pieces.iter().any(|piece| piece.field() == Some(field))
    }

    /// Appends the line of a request. The caller must have read the clock before.
    pub(super) fn line(&self, out: &mut Vec<u8>, clock: &mut Clock, fields: &impl Fields) {
        match self.kind {
            Kind::Text => {
                out.extend_from_slice(clock.now());
                out.extend_from_slice(b"  INFO access:");
                self.pieces(out, clock, fields);
                out.push(b'\n');
            }
            Kind::Json => {
                out.extend_from_slice(b"{\"timestamp\":\"");
                out.extend_from_slice(clock.now());
                out.extend_from_slice(b"\",\"level\":\"INFO\"");
                self.pieces(out, clock, fields);
                out.extend_from_slice(b",\"target\":\"access\"}\n");
            }
            Kind::Template => {
                self.pieces(out, clock, fields);
                out.push(b'\n');
            }
        }
    }

    /// Appends a line with the number of lost lines.
    pub(super) fn lost(&self, out: &mut Vec<u8>, clock: &mut Clock, lines: u64) {
        let now = String::from_utf8_lossy(clock.now()).into_owned();
        // A write to a Vec cannot fail.
        let _ = match self.kind {
            Kind::Text => writeln!(out, "{now}  WARN access: {lines} lines lost lost={lines}"),
            Kind::Json => writeln!(
                out,
                "{{\"timestamp\":\"{now}\",\"level\":\"WARN\",\"message\":\"{lines} lines lost\",\"lost\":{lines},\"target\":\"access\"}}"
            ),
            Kind::Template => {
                let path = format!("/{lines}-lines-lost");
                self.pieces(out, clock, &LostLines { lines, path });
                match self.tells_lost {
                    true => writeln!(out),
                    false => writeln!(out, " {lines} lines lost"),
                }
            }
        };
    }

    fn pieces(&self, out: &mut Vec<u8>, clock: &mut Clock, fields: &impl Fields) {
        let style = match self.kind {
            Kind::Json => Style::Json,
            Kind::Text | Kind::Template => Style::Text,
        };
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Named(name, field) => {
                    if let Some(value) = fields.value(*field) {
                        name.write(out);
                        value.write(out, style, clock);
                    }
                }
                Piece::Bare(field, style) => match fields.value(*field) {
                    Some(value) => value.write(out, *style, clock),
                    None => out.push(b'-'),
                },
            }
        }
    }
}

impl Piece {
    const fn field(&self) -> Option<AccessField> {
        match self {
            Self::Text(_) => None,
            Self::Named(_, field) | Self::Bare(field, _) => Some(*field),
        }
    }
}

fn named(fields: &[AccessField], before: &str, after: &str) -> Vec<Piece> {
    let pieces = fields.iter().filter_map(|field| {
        // A test checks that the name of each field is short enough.
        let name = Name::new(&format!("{before}{}{after}", field.name()))?;
        Some(Piece::Named(name, *field))
    });
    pieces.collect()
}

/// Returns the pieces of a template. The client's name is written in the style `client`.
fn bare(pieces: &[AccessPiece], client: Style) -> Vec<Piece> {
    let pieces = pieces.iter().map(|piece| match piece {
        AccessPiece::Text(text) => Piece::Text(text.as_bytes().into()),
        AccessPiece::Field(AccessField::Client) => Piece::Bare(AccessField::Client, client),
        AccessPiece::Field(field) => Piece::Bare(*field, Style::Plain),
    });
    pieces.collect()
}

/// Returns the pieces of a standard format, in which the client's name is one word.
fn pieces_of(template: &str) -> Vec<Piece> {
    // The standard templates have no errors.
    let pieces = AccessPiece::template(template).unwrap_or_default();
    bare(&pieces, Style::OneWord)
}

/// The fields of a line with the number of lost lines. Programs that read the Common Log Format need an address and a valid HTTP status, so
/// this line has both.
struct LostLines {
    lines: u64,
    path: String,
}

impl Fields for LostLines {
    fn value(&self, field: AccessField) -> Option<Value<'_>> {
        let nobody = std::net::Ipv4Addr::UNSPECIFIED;
        Some(match field {
            AccessField::Time => Value::Before(std::time::Duration::ZERO),
            AccessField::TimeLocal => Value::Local,
            AccessField::ClientIp => Value::Address(nobody.into()),
            AccessField::Path => Value::Text(self.path.as_bytes(), self.path.len()),
            AccessField::Outcome => Value::Word("lost"),
            AccessField::Status => Value::Number(599),
            AccessField::BytesOut => Value::Number(0),
            AccessField::Lost => Value::Number(self.lines),
            _ => return None,
        })
    }
}
