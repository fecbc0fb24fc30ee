//! Makes text from clients safe to show.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the character if it is safe to show, else the replacement character. Three kinds are not safe: a terminal obeys control
/// characters, some marks change the direction of writing, and invisible characters make two names look alike.
pub fn shown(char: char) -> char {
    match is_safe(char) {
        true => char,
        false => char::REPLACEMENT_CHARACTER,
    }
}

/// Makes JSON safe to show: escapes each character in its strings that [`shown`] replaces. A parser reads the same values from the result.
pub fn shown_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        // ASCII whitespace stays. JSON has line breaks and tabs only between values, because they are escaped in strings.
        if is_safe(char) || char.is_ascii_whitespace() {
            text.push(char);
            continue;
        }
        for unit in char.encode_utf16(&mut [0; 2]) {
            // A write to a String cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

/// Makes a line safe to show. Escapes DEL, and each character beyond ASCII that [`shown`] replaces, in the form `\u{9b}`. Other ASCII
/// control characters are not escaped, because terminal codes for colors contain them.
pub fn shown_text(line: &str) -> Cow<'_, str> {
    let is_safe = |char: char| (char.is_ascii() && char != '\x7f') || is_safe(char);
    if line.chars().all(is_safe) {
        return line.into();
    }
    let mut text = String::with_capacity(line.len() + 16);
    for char in line.chars() {
        match is_safe(char) {
            true => text.push(char),
            false => text.extend(char.escape_unicode()),
        }
    }
    text.into()
}

/// Whether a character is safe to show: no control character, no whitespace except the usual space, and none of the list below.
fn is_safe(char: char) -> bool {
    // Other spaces look like the usual space, so two names could look alike.
    if char.is_control() || char.is_whitespace() && char != ' ' {
        return false;
    }
    // Unicode's line breaks, format characters and characters with the property Default_Ignorable_Code_Point. The standard library has no
    // tables of them.
    !matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{890}'..='\u{891}'
            | '\u{8e2}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}'
            | '\u{110cd}'
            | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_replaced() {
        for hidden in [
            '\0',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{180e}',
            '\u{a0}',
            '\u{3000}',
            '\u{2800}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{2029}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fffb}',
            '\u{e0041}',
        ] {
            assert_eq!(shown(hidden), '\u{fffd}', "{hidden:?}");
        }
        for seen in [' ', '~', 'é', 'ß', '名', 'ا', '…', '\u{301}', '🚲'] {
            assert_eq!(shown(seen), seen);
        }
    }

    #[test]
    fn a_line_keeps_its_colors_and_shows_the_rest() {
        let line = "\u{1b}[31mé 名\t\u{1b}[0m";
        assert_eq!(shown_text(line), line);
        let line = "a\u{9b}31m \u{202e}\u{7f}ü";
        assert_eq!(shown_text(line), r"a\u{9b}31m \u{202e}\u{7f}ü");
    }

    #[test]
    fn json_keeps_its_values() {
        let name = "a\u{9b}31m\u{7f}\u{202e}\u{e0041}\u{ad}\n\"é🚲";
        let json = serde_json::to_string_pretty(&[name]).unwrap();
        let text = shown_json(&json);
        assert!(
            text.chars().all(|char| char == '\n' || shown(char) == char),
            "{text:?}"
        );
        assert!(text.contains("é🚲"), "{text}");
        let read: Vec<String> = serde_json::from_str(&text).unwrap();
        assert_eq!(read, [name]);
    }
}
