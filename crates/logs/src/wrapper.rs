//! Unwraps lines of a log that a container's runtime or docker compose has wrapped.

#[cfg(test)]
mod tests;

use crate::error::LineError;
use crate::input::MAX_LINE;
use crate::lines::cursor::Cursor;
use crate::text::{Escape, Text};

/// The text around each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper {
    /// containerd and CRI-O: `2026-11-25T10:00:00.000000000Z stdout F LINE`. `P` in place of `F` marks a line that continues in the next
    /// wrapped line.
    Cri,
    /// Docker's json-file: `{"log":"LINE\n","stream":"stdout","time":"…"}`. Without `\n`, the line continues.
    Docker,
    /// `docker compose logs`: `name-1  | LINE`.
    Compose,
}

/// An unwrapper of lines, which joins the parts of long lines.
#[derive(Debug)]
pub(crate) struct Unwrapper {
    wrapper: Wrapper,
    /// For each stream, the parts of a line that is not complete yet.
    parts: [Parts; 2],
    /// The last returned line, if it was joined from parts or had escapes.
    line: Vec<u8>,
}

/// The parts of a line that is not complete yet.
#[derive(Debug, Default)]
struct Parts {
    text: Vec<u8>,
    /// Whether the line is too long. Its further parts are left out.
    is_too_long: bool,
}

/// One wrapped line: the number of its stream, and its text.
struct Piece<'a> {
    stream: usize,
    text: Text<'a>,
    is_whole: bool,
}

impl Wrapper {
    /// Returns the first wrapper that at least half of these lines have.
    pub(crate) fn of(lines: &[&[u8]]) -> Option<Self> {
        let filled = || lines.iter().filter(|line| !line.is_empty());
        [Self::Cri, Self::Docker, Self::Compose]
            .into_iter()
            .find(|wrapper| {
                let wrapped = filled().filter(|line| wrapper.piece(line).is_ok()).count();
                wrapped > 0 && wrapped * 2 >= filled().count()
            })
    }

    /// Returns the lines that these wrapped lines contain.
    pub(crate) fn contents(self, lines: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut unwrapper = Unwrapper::new(self);
        let mut contents = Vec::new();
        for line in lines.iter().filter(|line| !line.is_empty()) {
            if let Ok(Some(line)) = unwrapper.content(line) {
                contents.push(line.to_vec());
            }
        }
        contents
    }

    fn piece(self, line: &[u8]) -> Result<Piece<'_>, LineError> {
        let mut cursor = Cursor::new(line);
        match self {
            Self::Cri => cri(&mut cursor),
            Self::Docker => docker(&mut cursor),
            Self::Compose => compose(&mut cursor),
        }
    }
}

fn cri<'a>(cursor: &mut Cursor<'a>) -> Result<Piece<'a>, LineError> {
    let error = cursor.error("expected a time, stdout or stderr, and F or P, as of a container");
    let time = cursor.word().bytes(cursor.line);
    if !matches!(time, [_, _, _, _, b'-', _, _, b'-', _, _, b'T', ..]) {
        return Err(error);
    }
    let stream = match cursor.word().bytes(cursor.line) {
        b"stdout" => 0,
        b"stderr" => 1,
        _ => return Err(error),
    };
    let is_whole = match cursor.peek() {
        Some(b'F') => true,
        Some(b'P') => false,
        _ => return Err(error),
    };
    cursor.at += 1;
    // More tags may follow, with a colon before each.
    if !matches!(cursor.peek(), None | Some(b' ' | b':')) {
        return Err(error);
    }
    cursor.word();
    Ok(Piece {
        stream,
        text: Text::new(cursor.rest(), None),
        is_whole,
    })
}

fn docker<'a>(cursor: &mut Cursor<'a>) -> Result<Piece<'a>, LineError> {
    let what = "expected {\"log\":\"…\",\"stream\":\"stdout\", as of a container";
    cursor.expect(b"{\"log\":\"", what)?;
    let span = cursor.quoted()?;
    let stream = if cursor.skip(b",\"stream\":\"stdout\"") {
        0
    } else {
        cursor.expect(b",\"stream\":\"stderr\"", what)?;
        1
    };
    let raw = span.bytes(cursor.line);
    let line = raw.strip_suffix(b"\\n");
    let is_whole = line.is_some();
    let escape = span.is_escaped().then_some(Escape::Backslash);
    Ok(Piece {
        stream,
        text: Text::new(line.unwrap_or(raw), escape),
        is_whole,
    })
}

fn compose<'a>(cursor: &mut Cursor<'a>) -> Result<Piece<'a>, LineError> {
    let error = cursor.error("expected the name of a container, and `| `");
    let name = cursor.word().bytes(cursor.line);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() || !name.iter().all(is_name) {
        return Err(error);
    }
    while cursor.skip(b" ") {}
    if !cursor.skip(b"|") {
        return Err(error);
    }
    cursor.skip(b" ");
    Ok(Piece {
        stream: 0,
        text: Text::new(cursor.rest(), None),
        is_whole: true,
    })
}

impl Unwrapper {
    pub(crate) fn new(wrapper: Wrapper) -> Self {
        Self {
            wrapper,
            parts: Default::default(),
            line: Vec::new(),
        }
    }

    /// Returns the line that a wrapped line completes. `None` if the line continues in a later wrapped line, or is too long. All parts of a
    /// line together have [`MAX_LINE`] bytes at most.
    pub(crate) fn content<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<&'a [u8]>, LineError> {
        let piece = self.wrapper.piece(line)?;
        let parts = &mut self.parts[piece.stream];
        if parts.is_too_long {
            parts.is_too_long = !piece.is_whole;
            return Ok(None);
        }
        let text = piece.text.bytes();
        if piece.is_whole && parts.text.is_empty() {
            return Ok(Some(match text {
                std::borrow::Cow::Borrowed(text) => text,
                std::borrow::Cow::Owned(text) => {
                    self.line = text;
                    &self.line
                }
            }));
        }
        if parts.text.len() + text.len() > MAX_LINE {
            *parts = Parts {
                text: Vec::new(),
                is_too_long: !piece.is_whole,
            };
            let what = "expected parts of a line of 1 MiB at most";
            return Err(LineError::at(0, what));
        }
        parts.text.extend_from_slice(&text);
        if !piece.is_whole {
            return Ok(None);
        }
        self.line = std::mem::take(&mut parts.text);
        Ok(Some(&self.line))
    }
}
