//! Text that clients have chosen, as it is shown to people.

/// A character of a client's name, in a form that is safe to show. A terminal obeys control characters, and some marks turn the
/// direction of writing: both become the replacement character.
pub fn shown(char: char) -> char {
    match char {
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            char::REPLACEMENT_CHARACTER
        }
        char if char.is_control() => char::REPLACEMENT_CHARACTER,
        char => char,
    }
}
