//! Scripts: their texts, and their hashes, by which Redis finds them.

use std::sync::OnceLock;

use fred::types::FromValue;

use super::word::Word;

/// One script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: Word,
    /// The SHA-1 of the text, by which Redis finds the script.
    pub(crate) sha: Word,
}

impl Script {
    fn new(text: String) -> Self {
        let sha = super::client::sha1(&text);
        Self {
            text: Word::interned(text),
            sha: Word::interned(sha),
        }
    }
}

/// All scripts. The number of a script is its index. Each text is made when it is first needed.
#[derive(Debug)]
pub struct Scripts {
    made: Box<[OnceLock<Script>]>,
    text: fn(usize) -> String,
}

impl Scripts {
    /// Takes `count` scripts. `text` returns the text of the script with a number below `count`.
    pub fn new(count: usize, text: fn(usize) -> String) -> Self {
        let made = (0..count).map(|_| OnceLock::new()).collect();
        Self { made, text }
    }

    /// Returns the number of scripts.
    pub(crate) const fn count(&self) -> usize {
        self.made.len()
    }

    /// Returns the script with this number. **Panics** if there is none.
    pub(crate) fn at(&self, number: usize) -> &Script {
        self.made[number].get_or_init(|| Script::new((self.text)(number)))
    }
}

/// A value in the reply of a script: a number or a text.
pub trait ReplyValue: FromValue {
    /// Whether the value is -1, the answer of a script whose deadline has passed.
    fn is_late(&self) -> bool;
}

impl ReplyValue for i64 {
    fn is_late(&self) -> bool {
        *self == -1
    }
}

impl ReplyValue for Vec<u8> {
    fn is_late(&self) -> bool {
        self == b"-1"
    }
}
