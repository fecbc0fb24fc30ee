//! Texts for logs: cut to a bounded length, and errors with their causes.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};

/// Returns an error with its causes, separated by colons.
pub fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in sources(error) {
        // Writing to a String cannot fail.
        let _: fmt::Result = write!(text, ": {cause}");
    }
    text
}

/// Returns the causes of an error, the nearest first.
pub fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// Cuts a text for a log to at most `longest` bytes. A cut text ends with `…`.
pub fn cut(text: &str, longest: usize) -> Cut<'_> {
    let end = text.floor_char_boundary(longest);
    Cut {
        kept: &text[..end],
        is_whole: end == text.len(),
    }
}

/// A text that may have been cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut<'a> {
    kept: &'a str,
    is_whole: bool,
}

impl<'a> Cut<'a> {
    /// The mark at the end of a cut text.
    const MARK: &'static str = "…";

    /// Returns the text, borrowed if it is whole.
    pub fn into_cow(self) -> Cow<'a, str> {
        match self.is_whole {
            true => self.kept.into(),
            false => format!("{}{}", self.kept, Self::MARK).into(),
        }
    }
}

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kept)?;
        f.write_str(if self.is_whole { "" } else { Self::MARK })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("whole", 5).to_string(), "whole");
        assert_eq!(cut("whole", 4).to_string(), "whol…");
        assert_eq!(cut("größe", 3).to_string(), "gr…");
        assert_eq!(cut("größe", 4).into_cow(), "grö…");
        assert_eq!(cut("", 0).into_cow(), "");
    }
}
