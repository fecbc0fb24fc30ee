//! Escapes characters, such as `"`, that are not allowed in a URI, but that some clients send in the target of an HTTP/1 request.
//!
//! The HTTP parser refuses a request with such a character. So these characters are escaped before the parser reads them: `"` becomes
//! `%22`. A `#` is replaced by `<`, which the parser refuses. Otherwise the parser would drop the `#` and the rest of the target.
//!
//! Only a request line that comes while no request is under way is escaped, so message framing need not be tracked. A pipelined request
//! line passes unchanged, so the parser refuses it if it has such a character.

use memchr::{memchr, memchr2, memchr3};

/// Finds the request line of each head, and escapes its target.
#[derive(Debug, Default)]
pub(crate) struct RequestLines {
    part: Part,
    /// The number of heads that had begun when the last request line ended. While the number is the same, further bytes belong to the same
    /// head.
    ended: Option<usize>,
}

/// The part of a request line that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// The first character of the line, after empty lines.
    #[default]
    Start,
    Method,
    /// The first character of the target.
    Target,
    Path,
    Query,
    /// A part that is not escaped: the version, or a line of another form.
    Rest,
}

impl RequestLines {
    /// Reads bytes that came while no request was under way. `heads` is the number of requests that began before these bytes. Returns the
    /// escaped bytes; `None` if no byte has to be escaped.
    pub(crate) fn read(&mut self, bytes: &[u8], heads: usize) -> Option<Vec<u8>> {
        if self.ended == Some(heads) {
            return None;
        }
        let start = match self.part {
            Part::Start => bytes.iter().position(|byte| !is_line_end(*byte))?,
            _ => 0,
        };
        let length = memchr(b'\n', &bytes[start..]);
        let end = length.map_or(bytes.len(), |length| start + length);
        let line = &bytes[start..end];
        let is_plain =
            memchr3(b'"', b'<', b'>', line).is_none() && memchr2(b'#', b'`', line).is_none();
        let mut escaped = None;
        if !is_plain {
            let mut changed = bytes[..start].to_vec();
            line.iter()
                .for_each(|byte| self.escape(*byte, &mut changed));
            changed.extend_from_slice(&bytes[end..]);
            escaped = (changed != bytes).then_some(changed);
        } else if length.is_none() {
            line.iter().for_each(|byte| self.pass(*byte));
        }
        if length.is_some() {
            self.part = Part::Start;
            self.ended = Some(heads);
        }
        escaped
    }

    /// Advances by one byte of the line.
    fn pass(&mut self, byte: u8) {
        self.part = match (self.part, byte) {
            // A method has only capital letters and `-`. Other methods are not in use, or are refused. A header line nearly always begins
            // with other characters, so the line is not mistaken for a request line.
            (Part::Start | Part::Method, b'A'..=b'Z') => Part::Method,
            (Part::Method, b'-') => Part::Method,
            (Part::Method, b' ') => Part::Target,
            // The first character of a path, or of a URL with a scheme.
            (Part::Target, b'/' | b'h' | b'H') => Part::Path,
            (Part::Path, b'?') => Part::Query,
            (Part::Path | Part::Query, byte) if byte != b' ' => self.part,
            _ => Part::Rest,
        };
    }

    /// Advances by one byte of the line, and adds the byte or its escape to `line`.
    fn escape(&mut self, byte: u8, line: &mut Vec<u8>) {
        self.pass(byte);
        let is_path = self.part == Part::Path;
        match byte {
            _ if !is_path && self.part != Part::Query => line.push(byte),
            b'"' => line.extend(b"%22"),
            b'<' => line.extend(b"%3C"),
            b'>' => line.extend(b"%3E"),
            b'`' if is_path => line.extend(b"%60"),
            b'#' => line.push(b'<'),
            _ => line.push(byte),
        }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads these bytes in parts of `size` bytes. `heads` is the number of heads that came before them.
    fn read(lines: &mut RequestLines, sent: &str, size: usize, heads: usize) -> String {
        let parts = sent.as_bytes().chunks(size);
        let read = parts.flat_map(|part| lines.read(part, heads).unwrap_or_else(|| part.to_vec()));
        String::from_utf8(read.collect()).unwrap()
    }

    #[track_caller]
    fn becomes(sent: &str, expected: &str) {
        for size in 1..=sent.len() {
            let mut lines = RequestLines::default();
            for heads in 0..3 {
                let text = read(&mut lines, sent, size, heads);
                assert_eq!(text, expected, "head {heads} in parts of {size}");
            }
        }
    }

    #[test]
    fn characters_of_a_target_are_escaped() {
        becomes(
            "GET /a\"<`>?f={\"a\":\"`\"}&<b> HTTP/1.1\r\nHost: a\r\nX: \"<>#\r\n\r\n",
            "GET /a%22%3C%60%3E?f={%22a%22:%22`%22}&%3Cb%3E HTTP/1.1\r\nHost: a\r\nX: \"<>#\r\n\r\n",
        );
        becomes("GET /a#b?c HTTP/1.1\r\n", "GET /a<b?c HTTP/1.1\r\n");
        becomes(
            "\r\n\r\nM-SEARCH http://a/?\" HTTP/1.1\n",
            "\r\n\r\nM-SEARCH http://a/?%22 HTTP/1.1\n",
        );
    }

    #[test]
    fn other_lines_are_unchanged() {
        for sent in [
            "GET /a?b=c HTTP/1.1\r\nHost: \"<#>\"\r\n\r\n",
            "GET / HTTP/1.1\"\r\n",
            // The end of a head that began in the bytes of another request.
            "X: \"a/b\" /\"<#\r\n\r\n",
            " boundary=\"x\"\r\n",
            "ookie n=\"v\"\r\n",
            "post /\"\r\n",
            "abc \"/x\"\r\n",
            "G\"T /\" HTTP/1.1\r\n",
            "\u{1}\u{2} /\"\r\n",
        ] {
            becomes(sent, sent);
        }
    }
}
