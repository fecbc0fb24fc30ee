//! Quotes and escapes values, so that a value cannot end its field or its line.

use tidegate_status::{shown_json, shown_text};

/// A style of quoting and escaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// Quoted and escaped as in Rust.
    Text,
    /// Quoted and escaped as in JSON.
    Json,
    /// As in nginx, without quotes: `"`, `\` and all bytes except printable ASCII become `\xXX`.
    Plain,
    /// Like `Plain`, but blanks and brackets also become `\xXX`, so that the value is one word.
    OneWord,
}

/// The length of `\xXX`, in bytes.
pub(super) const ESCAPE: usize = 4;

impl Style {
    /// Whether texts are in quotes.
    pub(super) const fn is_quoted(self) -> bool {
        matches!(self, Self::Text | Self::Json)
    }

    /// Whether texts have no quotes, and escapes of the form `\xXX`.
    pub(super) const fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::OneWord)
    }

    /// Whether a byte needs no escape.
    pub(super) const fn is_as_it_is(self, byte: u8) -> bool {
        match self {
            Self::OneWord => AS_IT_IS[byte as usize] && !matches!(byte, b' ' | b'[' | b']'),
            _ => AS_IT_IS[byte as usize],
        }
    }
}

/// For each byte, whether it needs no escape. [`Style::OneWord`] also escapes blanks and brackets.
const AS_IT_IS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        table[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    table
};

/// Whether none of the bytes needs an escape.
#[inline]
fn are_as_they_are(style: Style, bytes: &[u8]) -> bool {
    match bytes.last_chunk() {
        // The last eight bytes overlap the others if the length is no multiple of eight.
        Some(last) if style != Style::OneWord => {
            !bytes.as_chunks().0.iter().any(is_any_odd) && !is_any_odd(last)
        }
        _ => bytes.iter().all(|byte| style.is_as_it_is(*byte)),
    }
}

/// Whether a byte needs an escape in a style other than [`Style::OneWord`]. The compiler makes one instruction of eight comparisons.
fn is_any_odd(eight: &[u8; 8]) -> bool {
    let is_odd = |byte: u8| !(b' '..=b'~').contains(&byte) | (byte == b'"') | (byte == b'\\');
    eight.iter().fold(false, |any, byte| any | is_odd(*byte))
}

/// Writes bytes with escapes, so that they stay within their field and their line.
#[inline]
pub(super) fn escape(out: &mut Vec<u8>, style: Style, bytes: &[u8]) {
    if are_as_they_are(style, bytes) {
        out.extend_from_slice(bytes);
    } else {
        escape_odd(out, style, bytes);
    }
}

#[cold]
fn escape_odd(out: &mut Vec<u8>, style: Style, bytes: &[u8]) {
    match style {
        Style::Json => {
            let text = String::from_utf8_lossy(bytes);
            let quoted = serde_json::Value::from(text).to_string();
            let shown = shown_json(&quoted[1..quoted.len() - 1]);
            out.extend_from_slice(shown.as_bytes());
        }
        Style::Text => {
            let quoted = format!("{:?}", String::from_utf8_lossy(bytes));
            let shown = shown_text(&quoted[1..quoted.len() - 1]);
            out.extend_from_slice(shown.as_bytes());
        }
        Style::Plain | Style::OneWord => {
            for byte in bytes {
                if style.is_as_it_is(*byte) {
                    out.push(*byte);
                } else {
                    let digit = |four: u8| b"0123456789ABCDEF"[usize::from(four)];
                    out.extend_from_slice(b"\\x");
                    out.extend_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_compared_at_each_place_of_a_text() {
        for style in [Style::Text, Style::Json, Style::Plain, Style::OneWord] {
            for byte in 0..=u8::MAX {
                for place in 0..19 {
                    let mut text = [b'a'; 19];
                    text[place] = byte;
                    let expected = style.is_as_it_is(byte);
                    assert_eq!(are_as_they_are(style, &text), expected, "{style:?} {byte}");
                }
            }
        }
    }
}
