//! Keys and arguments of scripts.

use std::collections::HashSet;
use std::sync::LazyLock;

use fred::bytes_utils::Str;
use parking_lot::Mutex;

/// A key or an argument of a script. A clone copies no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word(Str);

/// The words of configurations, which are never freed.
static INTERNED: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

impl Word {
    /// Makes a word that is never freed. Equal texts are stored once. Clones of the word share no reference counter, for which threads
    /// would contend. Use this function only for words of configurations.
    pub fn interned(text: String) -> Self {
        let mut interned = INTERNED.lock();
        let kept = interned.get(&*text).copied().unwrap_or_else(|| {
            let kept: &'static str = text.leak();
            interned.insert(kept);
            kept
        });
        Self::from(kept)
    }

    /// Returns the text of the word.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text of the word in the type that fred takes.
    pub(crate) fn as_fred(&self) -> Str {
        self.0.clone()
    }
}

impl From<&'static str> for Word {
    fn from(text: &'static str) -> Self {
        Self(Str::from_static(text))
    }
}

impl From<String> for Word {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<u64> for Word {
    fn from(number: u64) -> Self {
        const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        let digit = usize::try_from(number)
            .ok()
            .and_then(|number| DIGITS.get(number));
        match digit {
            Some(digit) => Self::from(*digit),
            None => Self::from(number.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_its_text_however_it_is_made() {
        for number in [0, 9, 10, u64::MAX] {
            let text = number.to_string();
            let words = [
                Word::from(number),
                Word::from(text.clone()),
                Word::interned(text.clone()),
            ];
            for word in words {
                assert_eq!(word.as_str(), text);
                assert_eq!(word, Word::interned(text.clone()));
            }
        }
        let twice = [0, 1].map(|_| Word::interned("twice".to_owned()));
        assert!(std::ptr::eq(twice[0].as_str(), twice[1].as_str()));
    }
}
