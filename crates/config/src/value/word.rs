//! Values that are words: names, and choices among a few.

use std::path::PathBuf;

use crate::value::{Fault, Value};

/// A choice: each word with what it stands for.
macro_rules! choice {
    ($type:ty, $name:literal, $what:literal, $words:expr) => {
        impl $crate::value::Value for $type {
            const NAME: &'static str = $name;
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = "one of a few words";

            fn read(text: &str) -> Result<Self, $crate::value::Fault> {
                let found = $words.into_iter().find(|(word, _)| *word == text);
                found
                    .map(|(_, value)| value)
                    .ok_or($crate::value::Fault::Form)
            }

            fn words() -> impl Iterator<Item = &'static str> {
                $words.into_iter().map(|(word, _)| word)
            }
        }
    };
}

/// Declares a kind of name: any text that a function lets through.
macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $allowed:literal, $is_good:expr) => {
        $crate::value::word::name!($(#[$doc])* $type, $what, $allowed, $is_good, shown: true);
    };
    ($(#[$doc:meta])* $type:ident, $what:literal, $allowed:literal, $is_good:expr, shown: $shown:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct $type(pub(crate) String);

        impl $crate::value::Value for $type {
            const NAME: &'static str = stringify!($type);
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = $allowed;
            const SHOWN: bool = $shown;

            fn read(text: &str) -> Result<Self, $crate::value::Fault> {
                let is_good: fn(char) -> bool = $is_good;
                let fits = (1..=$crate::value::word::LONGEST_NAME).contains(&text.chars().count());
                let good = fits && text.chars().all(is_good);
                good.then(|| Self(text.to_owned())).ok_or($crate::value::Fault::Form)
            }
        }
    };
}

pub(crate) const LONGEST_NAME: usize = 128;

name!(
    /// The name of a limit, a plan or an upstream. A limit's becomes a part of its keys in Redis.
    LimitName,
    "a name",
    "letters, digits, `.`, `_` and `-`; 128 at most",
    |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
);

/// A file, found from the configuration's own folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl Value for FilePath {
    const NAME: &'static str = "FilePath";
    const WHAT: &'static str = "a file";
    const ALLOWED: &'static str = "a path, from the configuration's folder or from /";

    fn read(text: &str) -> Result<Self, Fault> {
        // Its content may be a private key, so it is not quoted.
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
