//! Walks through a line.

use crate::error::LineError;
use crate::record::{Record, Span};
use crate::slot::Slot;
use crate::time::TimeReader;

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
        LineError {
            column: self.at + 1,
            what,
        }
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

    /// The word up to the next blank or the end; the blank is stepped over.
    pub(crate) fn word(&mut self) -> Span {
        let start = self.at;
        let end = self.rest().iter().position(|byte| *byte == b' ');
        let end = end.map_or(self.line.len(), |length| start + length);
        self.at = (end + 1).min(self.line.len());
        Span::new(start, end, false)
    }

    /// The text up to the quote that closes it; the opening one was stepped over. A backslash escapes the byte behind it.
    pub(crate) fn quoted(&mut self) -> Result<Span, LineError> {
        let start = self.at;
        let mut escaped = false;
        loop {
            let Some(next) = memchr::memchr2(b'"', b'\\', self.rest()) else {
                self.at = start;
                return Err(self.error("expected a `\"` that closes this text"));
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

    /// Hands a value to the record.
    pub(crate) fn take(
        &self,
        record: &mut Record,
        slot: Slot,
        span: Span,
        times: &mut TimeReader,
    ) -> Result<(), LineError> {
        let taken = record.take(slot, self.line, span, times);
        taken.map_err(|what| LineError {
            column: span.start() + 1,
            what,
        })
    }
}
