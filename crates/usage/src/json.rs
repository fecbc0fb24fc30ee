//! Finds the number or the text at a path in JSON that arrives in parts.
//!
//! Only the objects on the path are read key by key. In all other values the scanner tracks only the depth and the bounds of strings. So
//! any depth of nesting needs only a counter.

use memchr::memchr2;

use crate::number::Number;
use crate::path::JsonPath;
use crate::text::Text;
use crate::weight::{Weight, WeightedPath};

/// A reader of consecutive documents, which returns the largest number or the text at the path.
#[derive(Debug)]
pub(crate) struct Scanner {
    path: JsonPath,
    value: Value,
    state: State,
    /// The number of open objects on the path.
    open: usize,
    /// The number of bytes of the current key that match the path's name. `None` after a different byte.
    matched: Option<usize>,
    /// The number of open objects and arrays in a skipped value.
    depth: u64,
}

/// The value at the path, as far as it was read.
#[derive(Debug)]
enum Value {
    Number {
        weight: Weight,
        number: Number,
        /// The largest number so far times its weight, in thousandths.
        maximum: Option<u64>,
    },
    Text(Text),
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
    /// In the string at the path.
    Wanted,
    /// After a backslash in the string at the path.
    WantedEscape,
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
    /// Makes a reader of the largest number at this path.
    pub(crate) fn number(weighted: WeightedPath) -> Self {
        let WeightedPath { path, weight } = weighted;
        let value = Value::Number {
            weight,
            number: Number::NONE,
            maximum: None,
        };
        Self::new(path, value)
    }

    /// Makes a reader of the text at this path.
    pub(crate) const fn text(path: JsonPath) -> Self {
        Self::new(path, Value::Text(Text::NONE))
    }

    const fn new(path: JsonPath, value: Value) -> Self {
        Self {
            path,
            value,
            state: State::Document,
            open: 0,
            matched: None,
            depth: 0,
        }
    }

    /// Returns the largest number at the path so far, times its weight, in thousandths, rounded up. `None` if there was no number of 0 or
    /// more.
    pub(crate) const fn maximum(&self) -> Option<u64> {
        match &self.value {
            Value::Number { maximum, .. } => *maximum,
            Value::Text(_) => None,
        }
    }

    /// Returns the text at the path. `None` if there was no text, or if there were different ones.
    pub(crate) fn found_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => text.get(),
            Value::Number { .. } => None,
        }
    }

    /// Whether there was a number or a text at the path.
    pub(crate) const fn has_value(&self) -> bool {
        match &self.value {
            Value::Number { maximum, .. } => maximum.is_some(),
            Value::Text(text) => text.was_read(),
        }
    }

    /// Whether the text is not JSON, so that the rest of the document is not read.
    pub(crate) fn is_failed(&self) -> bool {
        self.state == State::Failed
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
                State::Text => self.skip_text(rest),
                State::Skip => self.skip(rest),
                _ => match self.step(byte) {
                    true => after,
                    false => rest,
                },
            };
        }
    }

    /// Skips the rest of a string, up to its end or an escape.
    fn skip_text<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
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
                if let Value::Number { number, .. } = &mut self.value
                    && number.read(byte)
                {
                    return true;
                }
                self.end_number(byte);
                return false;
            }
            (State::Wanted, b'\\') => State::WantedEscape,
            (State::Wanted | State::WantedEscape, _) => self.wanted(byte),
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
            b'-' | b'0'..=b'9' if is_matched && is_last => match &mut self.value {
                Value::Number { number, .. } => {
                    *number = Number::NONE;
                    number.read(byte);
                    State::Number
                }
                Value::Text(_) => State::Literal,
            },
            b'"' if is_matched && is_last => match &mut self.value {
                Value::Text(text) => {
                    text.begin();
                    State::Wanted
                }
                Value::Number { .. } => State::Text,
            },
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

    /// Processes a byte of the string at the path.
    fn wanted(&mut self, byte: u8) -> State {
        let Value::Text(text) = &mut self.value else {
            return State::Failed;
        };
        match (self.state, byte) {
            (State::Wanted, b'"') => {
                text.end();
                return State::After;
            }
            (State::Wanted, _) => text.add(byte),
            // A name that is written with the number of a character is not worth a decoder.
            (_, b'u') => text.spoil(),
            _ => text.add(escaped(byte)),
        }
        State::Wanted
    }

    /// Ends the number at the path. `byte` is the first byte after it.
    fn end_number(&mut self, byte: u8) {
        let may_follow = matches!(byte, b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        self.state = State::Failed;
        if let Value::Number {
            weight,
            number,
            maximum,
        } = &mut self.value
            && may_follow
            && number.is_complete()
        {
            *maximum = (*maximum).max(number.times(weight.thousandths()));
            self.state = State::After;
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
mod tests;
