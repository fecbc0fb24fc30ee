//! A text of a line, and the escapes of formats.

use std::borrow::Cow;

/// A text of a line, with its escapes. [`bytes`](Self::bytes) resolves them.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    raw: &'a [u8],
    /// `None` if there are no escapes.
    escape: Option<Escape>,
}

/// The escapes of a format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Escape {
    /// `\xNN` of nginx and Apache, and the escapes of JSON and Rust: `\"`, `\\`, `\n`, `\u00fc`, `\u{fc}`.
    #[default]
    Backslash,
    /// The `\"` of Traefik, which escapes no other byte.
    Quote,
    /// The `#NN` of HAProxy.
    Hash,
    /// The `%NN` of URLs.
    Percent,
}

impl Escape {
    /// Returns the byte with which an escape begins.
    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Backslash | Self::Quote => b'\\',
            Self::Hash => b'#',
            Self::Percent => b'%',
        }
    }
}

impl<'a> Text<'a> {
    pub(crate) const fn new(raw: &'a [u8], escape: Option<Escape>) -> Self {
        Self { raw, escape }
    }

    /// Returns the bytes as the line has them.
    pub const fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Returns the bytes that the client or the server sent. They are borrowed if the text has no escapes.
    pub fn bytes(self) -> Cow<'a, [u8]> {
        match self.escape {
            Some(escape) if self.raw.contains(&escape.byte()) => {
                Cow::Owned(resolved(self.raw, escape))
            }
            _ => Cow::Borrowed(self.raw),
        }
    }
}

/// Resolves escapes. Text that only looks like an escape is copied unchanged.
fn resolved(raw: &[u8], escape: Escape) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(escape.byte(), rest) {
        out.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        let taken = match escape {
            Escape::Backslash => backslash(after, &mut out),
            Escape::Quote => after.starts_with(b"\"").then(|| {
                out.push(b'"');
                1
            }),
            Escape::Hash | Escape::Percent => hex_byte(after).map(|byte| {
                out.push(byte);
                2
            }),
        };
        if taken.is_none() {
            out.push(escape.byte());
        }
        rest = &after[taken.unwrap_or(0)..];
    }
    out.extend_from_slice(rest);
    out
}

/// Resolves the text after a backslash: appends its bytes, and returns the number of bytes read.
fn backslash(after: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let byte = match after.first()? {
        b'x' => {
            out.push(hex_byte(&after[1..])?);
            return Some(3);
        }
        b'u' => {
            let (code, length) = code_point(&after[1..])?;
            let mut buffer = [0; 4];
            out.extend_from_slice(code.encode_utf8(&mut buffer).as_bytes());
            return Some(1 + length);
        }
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'v' => 11,
        b'0' => 0,
        byte @ (b'"' | b'\\' | b'/' | b'\'') => *byte,
        _ => return None,
    };
    out.push(byte);
    Some(1)
}

/// Reads a character after `\u`, as JSON or Rust writes it. Returns the character, and the length of its text.
fn code_point(text: &[u8]) -> Option<(char, usize)> {
    if let Some(inner) = text.strip_prefix(b"{") {
        let end = inner.iter().take(8).position(|byte| *byte == b'}')?;
        return Some((char::from_u32(hex(&inner[..end])?)?, end + 2));
    }
    let first = hex(text.get(..4)?)?;
    if !(0xd800..0xe000).contains(&first) {
        return Some((char::from_u32(first)?, 4));
    }
    // Two surrogates stand for one character. A single surrogate stands for no character.
    let second = text.get(4..10).and_then(|it| hex(it.strip_prefix(b"\\u")?));
    match second {
        Some(second) if first < 0xdc00 && (0xdc00..0xe000).contains(&second) => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            Some((char::from_u32(code)?, 10))
        }
        _ => Some((char::REPLACEMENT_CHARACTER, 4)),
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u32, |sum, digit| {
        Some((sum << 4) | char::from(*digit).to_digit(16)?)
    })
}

fn hex_byte(text: &[u8]) -> Option<u8> {
    hex(text.get(..2)?).map(|byte| byte as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(raw: &str, escape: Escape) -> Vec<u8> {
        Text::new(raw.as_bytes(), Some(escape)).bytes().into_owned()
    }

    #[test]
    fn every_format_has_its_escapes() {
        use Escape::{Backslash, Hash, Percent, Quote};
        for (raw, escape, expected) in [
            (r"a\x22b\x5Cc\xff", Backslash, &b"a\"b\\c\xff"[..]),
            (
                r#"\"\\\/\n\r\t\b\f\v\0\'"#,
                Backslash,
                b"\"\\/\n\r\t\x08\x0c\x0b\0'",
            ),
            (r"\u00fc\u{fc}\ud83d\ude97", Backslash, "üü🚗".as_bytes()),
            (
                r"\ud83d \ude97x \ud83d\u0041",
                Backslash,
                "\u{fffd} \u{fffd}x \u{fffd}A".as_bytes(),
            ),
            (r"\\x22", Backslash, br"\x22"),
            (r#"a\"b\x22\"#, Quote, br#"a"b\x22\"#),
            ("/a#22b#7Fc#", Hash, b"/a\"b\x7fc#"),
            ("a%20b%2520%zz%", Percent, b"a b%20%zz%"),
        ] {
            assert_eq!(bytes(raw, escape), expected, "{raw}");
        }
    }

    #[test]
    fn what_is_no_escape_stays_as_it_is() {
        for raw in [
            r"\",
            r"\x",
            r"\x2",
            r"\xzz",
            r"\u",
            r"\u12",
            r"\u{",
            r"\u{}",
            r"\u{110000}",
            r"\u{fffffffff}",
            r"\q",
            r"\ü",
        ] {
            assert_eq!(bytes(raw, Escape::Backslash), raw.as_bytes(), "{raw}");
        }
    }
}
