//! Values that are words: names, and choices among a few.

use std::path::PathBuf;

use crate::values::value::{Fault, Value};

/// Declares a choice among words: its type, its name in the schema, its description, and each word with its value.
macro_rules! choice {
    ($type:ty, $name:literal, $what:literal, $words:expr) => {
        impl $crate::values::value::Value for $type {
            const NAME: &'static str = $name;
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = "one of a few words";

            fn read(text: &str) -> Result<Self, $crate::values::value::Fault> {
                let entry = $words.into_iter().find(|(word, _)| *word == text);
                entry
                    .map(|(_, value)| value)
                    .ok_or($crate::values::value::Fault::Form)
            }

            fn words() -> impl Iterator<Item = &'static str> {
                $words.into_iter().map(|(word, _)| word)
            }
        }
    };
}

/// Declares a kind of name: a text whose characters a function accepts. Constants of [`Value`] may follow.
macro_rules! name {
    ($(#[$doc:meta])* $vis:vis $type:ident, $what:literal, $allowed:literal, $is_good:expr $(, $($constants:tt)*)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        $vis struct $type($vis String);

        impl $crate::values::value::Value for $type {
            const NAME: &'static str = stringify!($type);
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = $allowed;
            $($($constants)*)?

            fn read(text: &str) -> Result<Self, $crate::values::value::Fault> {
                $crate::values::value::word::name_of(text, $is_good).map(Self)
            }
        }
    };
}

/// The longest name, in characters.
pub(crate) const LONGEST_NAME: usize = 128;

/// Reads a name of characters that `is_good` accepts.
///
/// # Errors
///
/// The text is empty or too long, or contains a character that `is_good` does not accept.
pub(crate) fn name_of(text: &str, is_good: fn(char) -> bool) -> Result<String, Fault> {
    let fits = (1..=LONGEST_NAME).contains(&text.chars().count());
    let good = fits && text.chars().all(is_good);
    good.then(|| text.to_owned()).ok_or(Fault::Form)
}

/// Returns whether a name may contain this character: a letter or a digit of ASCII, `.`, `_` or `-`.
pub(crate) const fn is_of_names(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

name!(
    /// The name of a limit, a plan or an upstream. The name of a limit becomes a part of its keys in Redis.
    pub(crate) LimitName,
    "a name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    is_of_names,
    const KEY_PATTERN: Option<&'static str> = Some("^[A-Za-z0-9._-]{1,128}$");
);

/// The path of a file. A relative path starts at the folder of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl Value for FilePath {
    const NAME: &'static str = "FilePath";
    const WHAT: &'static str = "a file";
    const ALLOWED: &'static str = "a path, from the configuration's folder or from /";

    fn read(text: &str) -> Result<Self, Fault> {
        // The text may be the content of a private key, so no message quotes it.
        if text.contains("-----BEGIN") || text.contains(char::is_control) {
            return Err(Fault::Because(
                "this is the content of a file; write the path of the file",
            ));
        }
        let path = (!text.is_empty()).then(|| Self(text.into()));
        path.ok_or(Fault::Form)
    }
}

pub(crate) use {choice, name};
