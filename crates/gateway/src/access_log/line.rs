//! One line of the access log, as text or as a JSON object.
//!
//! Both have the form of the lines that `tracing-subscriber` writes for the log of the process, so that one reader does for
//! both.

use std::fmt::{self, Write as _};

use tidegate_config::LogFormat;

use super::record::FIELDS;
use super::timestamp;

/// What marks a text that was cut.
const MARK: &str = "…";

/// What stands before the time in a JSON line.
const JSON_START: &[u8] = b"{\"timestamp\":\"";

/// The time of a line. Times compare as their texts do.
pub(super) fn time_of(line: &[u8]) -> &[u8] {
    let rest = line.strip_prefix(JSON_START).unwrap_or(line);
    rest.get(..timestamp::LENGTH).unwrap_or(rest)
}

/// A line that is being written. Dropping it ends the line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    out: &'a mut Vec<u8>,
    is_json: bool,
}

impl<'a> Line<'a> {
    /// Begins a line with its time.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        format: LogFormat,
        time: &[u8; timestamp::LENGTH],
    ) -> Self {
        let is_json = match format {
            LogFormat::Text => false,
            LogFormat::Json => true,
        };
        if is_json {
            out.extend_from_slice(JSON_START);
            out.extend_from_slice(time);
            out.extend_from_slice(b"\",\"level\":\"INFO\"");
        } else {
            out.extend_from_slice(time);
            out.extend_from_slice(b"  INFO access:");
        }
        Self { out, is_json }
    }

    fn name(&mut self, name: &str) {
        debug_assert!(FIELDS.contains(&name), "{name} is not listed");
        let (before, after): (&[u8], &[u8]) = match self.is_json {
            true => (b",\"", b"\":"),
            false => (b" ", b"="),
        };
        self.out.extend_from_slice(before);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(after);
    }

    /// A number.
    pub(super) fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        let mut buffer = itoa::Buffer::new();
        self.out.extend_from_slice(buffer.format(number).as_bytes());
    }

    /// A word of the gateway's own, or what needs no escapes, such as an address: without quotes in a text line.
    pub(super) fn plain(&mut self, name: &str, word: impl fmt::Display) {
        self.name(name);
        if self.is_json {
            self.out.push(b'"');
        }
        // A buffer in memory takes everything.
        let _ = write!(Bytes(self.out), "{word}");
        if self.is_json {
            self.out.push(b'"');
        }
    }

    /// A text of anybody's, in quotes. What is beyond `longest` bytes is cut.
    pub(super) fn text(&mut self, name: &str, text: &str, longest: usize) {
        self.name(name);
        let end = text.floor_char_boundary(longest);
        self.out.push(b'"');
        escape(self.out, &text[..end], self.is_json);
        if end < text.len() {
            self.out.extend_from_slice(MARK.as_bytes());
        }
        self.out.push(b'"');
    }

    /// What anybody has called something, in quotes. What is beyond `longest` characters is cut.
    pub(super) fn shown(&mut self, name: &str, shown: impl fmt::Display, longest: usize) {
        self.name(name);
        self.out.push(b'"');
        let mut quoted = Quoted {
            out: self.out,
            is_json: self.is_json,
            left: longest,
            is_cut: false,
        };
        let _ = write!(quoted, "{shown}");
        self.out.push(b'"');
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let end: &[u8] = match self.is_json {
            true => b",\"target\":\"access\"}\n",
            false => b"\n",
        };
        self.out.extend_from_slice(end);
    }
}

/// Takes text as bytes.
struct Bytes<'a>(&'a mut Vec<u8>);

impl fmt::Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// Takes the inside of a quoted text, and cuts it.
struct Quoted<'a> {
    out: &'a mut Vec<u8>,
    is_json: bool,
    /// Characters that may still come.
    left: usize,
    is_cut: bool,
}

impl fmt::Write for Quoted<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.is_cut {
            return Ok(());
        }
        let end = text.char_indices().nth(self.left).map(|(end, _)| end);
        let kept = &text[..end.unwrap_or(text.len())];
        escape(self.out, kept, self.is_json);
        if end.is_some() {
            self.out.extend_from_slice(MARK.as_bytes());
            self.is_cut = true;
        }
        self.left -= kept.chars().count();
        Ok(())
    }
}

/// Writes the inside of a quoted text.
fn escape(out: &mut Vec<u8>, text: &str, is_json: bool) {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.extend_from_slice(text.as_bytes());
    } else if is_json {
        let quoted = serde_json::Value::from(text).to_string();
        out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
    } else {
        let quoted = format!("{text:?}");
        out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: LogFormat) -> String {
        let mut out = Vec::new();
        {
            let time = b"2026-11-22T15:32:17.123456Z";
            let mut line = Line::begin(&mut out, format, time);
            line.text("path", "/a\"b\\c\n\u{7f}ü", 100);
            line.text("id", "abcü", 4);
            line.number("status", 200);
            line.plain("peer", std::net::Ipv4Addr::LOCALHOST);
            line.shown("client", format_args!("user_id:{}\n{}", "\"x", "yüz"), 13);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_text_line_is_what_tracing_writes() {
        let expected = "2026-11-22T15:32:17.123456Z  INFO access: path=\"/a\\\"b\\\\c\\n\\u{7f}ü\" id=\"abc…\" status=200 \
                        peer=127.0.0.1 client=\"user_id:\\\"x\\nyü…\"\n";
        assert_eq!(line(LogFormat::Text), expected);
    }

    #[test]
    fn a_json_line_is_an_object_with_the_same_values() {
        let text = line(LogFormat::Json);
        assert!(text.ends_with("}\n") && text.lines().count() == 1);
        let expected = serde_json::json!({
            "timestamp": "2026-11-22T15:32:17.123456Z",
            "level": "INFO",
            "path": "/a\"b\\c\n\u{7f}ü",
            "id": "abc…",
            "status": 200,
            "peer": "127.0.0.1",
            "client": "user_id:\"x\nyü…",
            "target": "access",
        });
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            expected
        );
    }
}
