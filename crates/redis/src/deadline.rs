//! How a script is told until when it may decide (lua/README.md).

use tidegate_core::{MAX_EXACT, Micros};

use super::word::Word;

/// What a script is told that decides, and may not after the deadline. What it reserves has this ID, if it does.
pub fn with_deadline(until: Option<Micros>, hold: u64, words: &[Word]) -> Vec<Word> {
    let mut all = Vec::with_capacity(1 + words.len());
    all.push(deadline_of(until, hold));
    all.extend_from_slice(words);
    all
}

/// A deadline, and the ID of what a decision reserves, if it does.
pub(crate) fn deadline_of(until: Option<Micros>, hold: u64) -> Word {
    match hold {
        0 => deadline(until),
        id => format!("{} {id:x}", until.unwrap_or(MAX_EXACT)).into(),
    }
}

/// A deadline on Redis's clock, if that is known.
pub fn deadline(deadline: Option<Micros>) -> Word {
    deadline.unwrap_or(MAX_EXACT).into()
}
