//! The deadline of a script's decision (lua/README.md).

use tidegate_core::{MAX_EXACT, Micros};

use super::word::Word;

/// Returns the arguments of a decision: its deadline, and then `words`. If `hold` is not 0, the decision takes holds with this ID.
pub fn with_deadline(until: Option<Micros>, hold: u64, words: &[Word]) -> Vec<Word> {
    let mut all = Vec::with_capacity(1 + words.len());
    all.push(deadline_of(until, hold));
    all.extend_from_slice(words);
    all
}

/// Formats a deadline. If `hold` is not 0, the ID of the decision's holds follows.
pub(crate) fn deadline_of(until: Option<Micros>, hold: u64) -> Word {
    match hold {
        0 => deadline(until),
        id => format!("{} {id:x}", until.unwrap_or(MAX_EXACT)).into(),
    }
}

/// Formats a deadline on Redis's clock. Without a deadline, uses the greatest integer that Lua represents exactly.
pub fn deadline(deadline: Option<Micros>) -> Word {
    deadline.unwrap_or(MAX_EXACT).into()
}
