//! Steps through a line.

use crate::error::LineError;
use crate::meaning::Meaning;
use crate::record::{Span, Values};

/// A place in a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) line: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.line.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    pub(crate) const fn error(&self, what: &'static str) -> LineError {
        LineError::at(self.at, what)
    }

    /// Steps over this text, if it is next.
    pub(crate) fn skip(&mut self, text: &[u8]) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    pub(crate) fn expect(&mut self, text: &[u8], what: &'static str) -> Result<(), LineError> {
        if self.skip(text) {
            return Ok(());
        }
        Err(self.error(what))
    }

    /// Returns the word up to the next blank or the end, and steps over the blank.
    pub(crate) fn word(&mut self) -> Span {
        let start = self.at;
        let length = self.rest().iter().position(|byte| *byte == b' ');
        let end = length.map_or(self.line.len(), |length| start + length);
        self.at = (end + 1).min(self.line.len());
        Span::new(start, end, false)
    }

    /// Returns the next word, or an error with the text `what` if the word is empty.
    pub(crate) fn filled_word(&mut self, what: &'static str) -> Result<Span, LineError> {
        let error = self.error(what);
        let word = self.word();
        if word.is_empty() {
            Err(error)
        } else {
            Ok(word)
        }
    }

    /// Returns the text up to its closing quote. The cursor must be past the opening quote. A backslash escapes the next byte.
    pub(crate) fn quoted(&mut self) -> Result<Span, LineError> {
        let start = self.at;
        let mut escaped = false;
        loop {
            let Some(next) = memchr::memchr2(b'"', b'\\', self.rest()) else {
                return Err(LineError::at(
                    start,
                    "expected a `\"` that closes this text",
                ));
            };
            self.at += next;
            if self.line[self.at] == b'"' {
                self.at += 1;
                return Ok(Span::new(start, self.at - 1, escaped));
            }
            escaped = true;
            self.at = (self.at + 2).min(self.line.len());
        }
    }

    /// Stores a value in the record.
    pub(crate) fn take(
        &self,
        values: &mut Values,
        meaning: Meaning,
        span: Span,
    ) -> Result<(), LineError> {
        let taken = values.take(meaning, self.line, span);
        taken.map_err(|what| LineError::at(span.start(), what))
    }
}
