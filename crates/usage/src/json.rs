//! Finds the number at a path in JSON that arrives in parts.
//!
//! Only the objects on the path are read key by key. In all other values the scanner tracks only the depth and the bounds of strings. So
//! any depth of nesting needs only a counter.

use memchr::memchr2;

use crate::number::Number;
use crate::path::JsonPath;

/// A reader of consecutive documents, which returns the largest number at the path.
#[derive(Debug)]
pub(crate) struct Scanner {
    path: JsonPath,
    state: State,
    /// The number of open objects on the path.
    open: usize,
    /// The number of bytes of the current key that match the path's name. `None` after a different byte.
    matched: Option<usize>,
    /// The number of open objects and arrays in a skipped value.
    depth: u64,
    number: Number,
    maximum: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a document.
    Document,
    /// After `{`.
    FirstKey,
    /// After a comma.
    NextKey,
    Key,
    /// After a backslash in a key.
    KeyEscape,
    /// In an escape such as `\u0041` in a key. Holds the number of digits read, and their value.
    KeyUnicode(u8, u16),
    Colon,
    Value,
    Number,
    /// In a skipped number, `true`, `false` or `null`.
    Literal,
    /// In a skipped string.
    Text,
    /// After a backslash in a skipped string.
    TextEscape,
    /// In a skipped object or array.
    Skip,
    /// After a value in an object of the path.
    After,
    /// The text is not JSON.
    Failed,
}

impl Scanner {
    pub(crate) const fn new(path: JsonPath) -> Self {
        Self {
            path,
            state: State::Document,
            open: 0,
            matched: None,
            depth: 0,
            number: Number::NONE,
            maximum: None,
        }
    }

    /// Returns the largest number at the path so far, rounded up, or `None` if there was no number of 0 or more.
    pub(crate) const fn maximum(&self) -> Option<u64> {
        self.maximum
    }

    /// Begins a new document, and keeps the largest number so far.
    pub(crate) const fn restart(&mut self) {
        self.state = State::Document;
        self.depth = 0;
    }

    /// Reads the next part of the text.
    pub(crate) fn read(&mut self, part: &[u8]) {
        let mut rest = part;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.state {
                State::Failed => return,
                State::Text => self.text(rest),
                State::Skip => self.skip(rest),
                _ => match self.step(byte) {
                    true => after,
                    false => rest,
                },
            };
        }
    }

    /// Skips the rest of a string, up to its end or an escape.
    fn text<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let Some(at) = memchr2(b'"', b'\\', part) else {
            return &[];
        };
        self.state = match (part[at], self.depth) {
            (b'\\', _) => State::TextEscape,
            (_, 0) => State::After,
            _ => State::Skip,
        };
        &part[at + 1..]
    }

    /// Skips the rest of an object or array, up to its end or a string.
    fn skip<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        for (at, byte) in part.iter().enumerate() {
            match byte {
                b'"' => self.state = State::Text,
                b'{' | b'[' => {
                    self.depth += 1;
                    continue;
                }
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth > 0 {
                        continue;
                    }
                    self.state = State::After;
                }
                _ => continue,
            }
            return &part[at + 1..];
        }
        &[]
    }

    /// Processes one byte. Returns false if the byte must be processed again, in the new state.
    fn step(&mut self, byte: u8) -> bool {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.state = match (self.state, byte) {
            (State::Number, _) => {
                if self.number.read(byte) {
                    return true;
                }
                self.end_number(byte);
                return false;
            }
            (State::Key, b'"') => {
                self.matched = self.matched.filter(|at| *at == self.name().len());
                State::Colon
            }
            (State::Key, b'\\') => State::KeyEscape,
            (State::Key, _) => self.key(byte),
            (State::KeyEscape, b'u') => State::KeyUnicode(0, 0),
            (State::KeyEscape, _) => self.key(escaped(byte)),
            (State::KeyUnicode(digits, code), _) => self.unicode(digits, code, byte),
            (State::TextEscape, _) => State::Text,
            (State::Literal, b',' | b'}') => {
                self.state = State::After;
                return false;
            }
            (State::Literal, _) if is_space => State::After,
            (State::Literal, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'+' | b'-' | b'E') => {
                State::Literal
            }
            (state, _) if is_space => state,
            (State::Document, b'{') => {
                self.open = 1;
                State::FirstKey
            }
            (State::FirstKey | State::NextKey, b'"') => {
                self.matched = Some(0);
                State::Key
            }
            (State::Colon, b':') => State::Value,
            (State::Value, _) => self.value(byte),
            (State::After, b',') => State::NextKey,
            (State::FirstKey | State::After, b'}') => {
                self.open -= 1;
                match self.open {
                    0 => State::Document,
                    _ => State::After,
                }
            }
            _ => State::Failed,
        };
        true
    }

    /// Returns the name on the path that a key of the innermost open object must equal.
    fn name(&self) -> &[u8] {
        let name = self.path.names().get(self.open.saturating_sub(1));
        name.map_or(&[], |name| name.as_bytes())
    }

    /// Compares a byte of a key.
    fn key(&mut self, byte: u8) -> State {
        let is_same = |at: &usize| self.name().get(*at) == Some(&byte);
        self.matched = self.matched.filter(is_same).map(|at| at + 1);
        State::Key
    }

    /// Processes a digit of an escape in a key. A character outside ASCII cannot match, because paths are ASCII.
    fn unicode(&mut self, digits: u8, code: u16, byte: u8) -> State {
        let Some(digit) = char::from(byte).to_digit(16) else {
            return State::Failed;
        };
        let code = code << 4 | digit as u16;
        match (digits, u8::try_from(code)) {
            (0..3, _) => State::KeyUnicode(digits + 1, code),
            (_, Ok(byte)) if byte.is_ascii() => self.key(byte),
            _ => {
                self.matched = None;
                State::Key
            }
        }
    }

    /// Processes the first byte of a value.
    fn value(&mut self, byte: u8) -> State {
        let is_matched = self.matched.is_some();
        let is_last = self.open == self.path.names().len();
        match byte {
            b'-' | b'0'..=b'9' if is_matched && is_last => {
                self.number = Number::NONE;
                self.number.read(byte);
                State::Number
            }
            b'{' if is_matched && !is_last => {
                self.open += 1;
                State::FirstKey
            }
            b'{' | b'[' => {
                self.depth = 1;
                State::Skip
            }
            b'"' => State::Text,
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => State::Literal,
            _ => State::Failed,
        }
    }

    /// Ends the number at the path. `byte` is the first byte after it.
    fn end_number(&mut self, byte: u8) {
        let may_follow = matches!(byte, b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        self.state = match may_follow && self.number.is_complete() {
            true => State::After,
            false => State::Failed,
        };
        if self.state == State::After {
            self.maximum = self.maximum.max(self.number.value());
        }
    }
}

/// Returns the byte that a backslash and this letter mean.
const fn escaped(letter: u8) -> u8 {
    match letter {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_in(path: &str, text: &str) -> Option<u64> {
        let mut scanner = Scanner::new(path.parse().unwrap());
        scanner.read(text.as_bytes());
        let whole = scanner.maximum();
        let mut scanner = Scanner::new(path.parse().unwrap());
        text.bytes().for_each(|byte| scanner.read(&[byte]));
        assert_eq!(scanner.maximum(), whole, "byte by byte: {text}");
        whole
    }

    #[test]
    fn the_number_at_the_path_is_found() {
        for (text, expected) in [
            (r#"{"a":{"b":7}}"#, Some(7)),
            ("{ \"a\" :\t{ \"b\" :\r\n 7 } }\n", Some(7)),
            (
                r#"{"x":{"a":{"b":1}},"b":2,"a":{"a":{"b":3},"b":7,"c":8}}"#,
                Some(7),
            ),
            (r#"{"x":[{"a":{"b":1}},"]}\"",[[]]],"a":{"b":7}}"#, Some(7)),
            (r#"{"x":"\\","y":"\"a\":{\"b\":1}","a":{"b":7}}"#, Some(7)),
            (r#"{"x":null,"y":true,"z":-1.5e+7,"a":{"b":7}}"#, Some(7)),
            (
                r#"{"":1,"aa":{"b":1},"A":{"b":2},"a":{"bb":3,"":4,"b":7}}"#,
                Some(7),
            ),
            (r#"{"\u0061":{"\u0062":7}}"#, Some(7)),
            (
                r#"{"\u0161":{"b":1},"\ud83d\ude00":{},"\n":{},"a":{"\u0042":1}}"#,
                None,
            ),
            // Not what the path leads to.
            (r#"{"a":7}"#, None),
            (r#"{"a":[{"b":7}]}"#, None),
            (r#"[{"a":{"b":7}}]"#, None),
            (r#"{"a":{"b":"7"}}"#, None),
            (r#"{"a":{"b":null}}"#, None),
            (r#"{"a":{"b":true}}"#, None),
            (r#"{"a":{"b":[7]}}"#, None),
            (r#"{"a":{"b":{"b":7}}}"#, None),
            (r#"{"a":{"b":-7}}"#, None),
            (r#"{"a":{"b":7.5}}"#, Some(8)),
            ("", None),
            ("7", None),
            ("\"a\"", None),
        ] {
            assert_eq!(number_in("a.b", text), expected, "{text}");
        }
        assert_eq!(number_in("a", r#"{"a":7}"#), Some(7));
    }

    #[test]
    fn the_largest_number_counts_and_other_values_take_nothing_back() {
        for (text, expected) in [
            (r#"{"a":1,"a":7}"#, Some(7)),
            (r#"{"a":7,"a":"x","a":null,"a":-1,"a":{}}"#, Some(7)),
            ("{\"a\":1}\n{\"a\":7}\n{\"b\":8}\n", Some(7)),
            (r#"{"a":1}{"a":7}"#, Some(7)),
            (r#"{"a":7,"a":0}"#, Some(7)),
            (r#"{"a":7}{"a":0}"#, Some(7)),
        ] {
            assert_eq!(number_in("a", text), expected, "{text}");
        }
        assert_eq!(
            number_in("a.b", r#"{"a":{"b":7},"a":{"b":3},"a":{}}"#),
            Some(7)
        );
    }

    #[test]
    fn what_is_no_json_ends_the_reading_and_what_was_found_counts() {
        for (text, expected) in [
            (r#"{"a":7"#, None),
            (r#"{"a":7,"#, Some(7)),
            (r#"{"a":7}}{"a":8}"#, Some(7)),
            (r#"{"a":7,}{"a":8}"#, Some(7)),
            (r#"{"a":7 "a":8}"#, Some(7)),
            (r#"{"a":7;"a":8}"#, None),
            (r#"{"a":7x,"a":8}"#, None),
            (r#"{"a":07}"#, None),
            (r#"{"a":+7}"#, None),
            (r#"{"a":7.}"#, None),
            (r#"{a:7}"#, None),
            (r#"{"a" 7}"#, None),
            (r#"{"b":&,"a":7}"#, None),
            (r#"{"b":n&ll,"a":7}"#, None),
            (r#"{"\u00zz":1,"a":7}"#, None),
            ("data: {\"a\":7}", None),
            ("\u{feff}{\"a\":7}", None),
        ] {
            assert_eq!(number_in("a", text), expected, "{text}");
        }
    }

    #[test]
    fn a_new_text_begins_anew() {
        let mut scanner = Scanner::new("a".parse().unwrap());
        for (part, expected) in [
            (r#"{"b":[[["#, None),
            (r#"{"a":1}"#, Some(1)),
            (r#"[DONE]"#, Some(1)),
            (r#"{"a":2,"b":""#, Some(2)),
            (r#"{"a":null}"#, Some(2)),
            (r#"{"a":3,"#, Some(3)),
        ] {
            scanner.restart();
            scanner.read(part.as_bytes());
            assert_eq!(scanner.maximum(), expected, "{part}");
        }
    }

    #[test]
    fn any_depth_needs_no_memory() {
        let deep = 100_000;
        let (open, close) = ("[".repeat(deep), "]".repeat(deep));
        assert_eq!(
            number_in("a", &format!("{{\"x\":{open}{close},\"a\":7}}")),
            Some(7)
        );
        let (open, close) = ("{\"a\":".repeat(deep), "}".repeat(deep));
        assert_eq!(
            number_in("a", &format!("{{\"x\":{open}1{close},\"a\":7}}")),
            Some(7)
        );
        assert_eq!(number_in("a.a", &format!("{open}1{close}")), None);
        assert!(size_of::<Scanner>() <= 128);
    }
}
