//! Text that clients have chosen, as it is shown to people.

/// A character of a client's name, in a form that is safe to show. A terminal obeys control characters, and some marks turn the
/// direction of writing. Others cannot be seen, or look like a space: two names with them could look alike. All become the
/// replacement character.
pub fn shown(char: char) -> char {
    match char {
        ' '..='~' => char,
        char if char.is_control() || is_unseen(char) => char::REPLACEMENT_CHARACTER,
        char => char,
    }
}

/// Whether a character is a format character, is ignored where text is shown (`Default_Ignorable_Code_Point`), or is a space other
/// than U+0020. The standard library has no tables of these.
const fn is_unseen(char: char) -> bool {
    matches!(
        char,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}'..='\u{891}' | '\u{8e2}' | '\u{115f}'..='\u{1160}' | '\u{1680}'
            | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{2800}' | '\u{3000}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_cannot_be_seen_are_replaced() {
        let controls = "\0\u{7}\u{85}\u{202e}\u{2066}\u{61c}";
        let unseen = "\u{ad}\u{200b}\u{200f}\u{2060}\u{3164}\u{feff}\u{e0041}";
        let spaces = "\u{a0}\u{2003}\u{2028}\u{2029}\u{3000}";
        for char in [controls, unseen, spaces].concat().chars() {
            assert_eq!(shown(char), char::REPLACEMENT_CHARACTER, "{char:?}");
        }
        for char in " aZ~\u{fffd}äжהあ漢🙂".chars() {
            assert_eq!(shown(char), char);
        }
    }
}
