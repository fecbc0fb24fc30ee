//! Text in columns of a terminal.

use tidegate_status::shown;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The mark at the end of a text that was cut.
const MARK: &str = "…";

/// Replaces the characters of a text that are unsafe for a terminal.
pub fn clean(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// Returns the width of a text, in columns of the terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to `columns`, and marks the cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    prefix(text, room).to_owned() + MARK
}

/// Cuts a text to `columns` before its last word, and keeps that word. If the last word does not fit, cuts the end of the text like
/// [`cut`].
pub(crate) fn cut_before_last(text: &str, columns: usize) -> String {
    match text.rsplit_once(' ') {
        Some((head, last)) if width(text) > columns && width(last) + 2 <= columns => {
            let head = cut(head, columns - width(last) - 1);
            format!("{head} {last}")
        }
        _ => cut(text, columns),
    }
}

/// Aligns a text to the left in exactly `columns`. Cuts a longer text.
pub(crate) fn left(text: &str, columns: usize) -> String {
    let cell = cut(text, columns);
    let room = " ".repeat(columns.saturating_sub(width(&cell)));
    cell + &room
}

/// Aligns a text to the right in exactly `columns`. Cuts a longer text.
pub(crate) fn right(text: &str, columns: usize) -> String {
    let cell = cut(text, columns);
    let room = " ".repeat(columns.saturating_sub(width(&cell)));
    room + &cell
}

/// Wraps a text into lines of at most `columns`. Breaks a word only if the word does not fit into a line.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(2);
    let mut lines = vec![String::new()];
    for mut word in text.split(' ') {
        let line = lines.last().map_or(0, |line| width(line));
        if line > 0 && line + 1 + width(word) > columns {
            lines.push(String::new());
        } else if line > 0 {
            push(&mut lines, " ");
        }
        while width(word) > columns {
            // Takes at least one character, even if that character is wider than a line.
            let first = word.chars().next().map_or(0, char::len_utf8);
            let (head, rest) = word.split_at(prefix(word, columns).len().max(first));
            push(&mut lines, head);
            lines.push(String::new());
            word = rest;
        }
        push(&mut lines, word);
    }
    lines
}

fn push(lines: &mut [String], text: &str) {
    if let Some(line) = lines.last_mut() {
        line.push_str(text);
    }
}

/// Returns the longest beginning of a text that fits into `columns`.
fn prefix(text: &str, columns: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, char)| {
        taken += char.width().unwrap_or_default();
        taken > columns
    });
    end.map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(left("ab", 4), "ab  ");
        assert_eq!(right("ab", 4), "  ab");
        assert_eq!(left("名前です", 8), "名前です");
        assert_eq!(left("名前です", 7), "名前で…");
        assert_eq!(left("名前です", 6), "名前… ");
        assert_eq!(right("名前です", 6), " 名前…");
        assert_eq!(cut("ab", 0), "");
        assert_eq!(cut_before_last("a-limit 0/20", 9), "a-l… 0/20");
        assert_eq!(cut_before_last("a-limit 0/20", 12), "a-limit 0/20");
        assert_eq!(cut_before_last("a-limit 0/20", 5), "a-li…");
        for columns in 0..12 {
            assert_eq!(width(&left("a名b前c", columns)), columns);
        }
    }

    #[test]
    fn long_lines_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one", 8), ["one"]);
        assert_eq!(wrapped("a 0123456789", 4), ["a", "0123", "4567", "89"]);
        assert_eq!(wrapped("名前です", 4), ["名前", "です"]);
        assert_eq!(wrapped("", 8), [""]);
    }
}
