//! Makes texts of logs and names of files harmless to a terminal.

use std::borrow::Cow;

/// Replaces control characters by blanks. Otherwise a log could control the terminal, or write lines that look like lines of the report.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    match text.contains(char::is_control) {
        true => Cow::Owned(text.replace(char::is_control, " ")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_controls_a_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n\u{9b}c\u{7f}ü"), "a [2Jb   c ü");
    }
}
