//! A path to a number in JSON: names of keys, joined by dots.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The most names in a path.
const MAX_NAMES: usize = 16;
/// The longest path, in bytes.
const MAX_BYTES: usize = 256;

/// A path to a value in JSON. The first name is a key of the document, which must be an object. Each further name is a key of the object
/// that is the value of the previous name. A path cannot enter an array.
///
/// ```
/// use tidegate_usage::JsonPath;
///
/// let path: JsonPath = "usage.total_tokens".parse()?;
/// assert_eq!(path.to_string(), "usage.total_tokens");
/// assert!("$.usage".parse::<JsonPath>().is_err());
/// # Ok::<(), tidegate_usage::PathError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPath(Arc<[Box<str>]>);

/// The reason why a text is not a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PathError(
    /// The reason, as a sentence without a full stop.
    pub &'static str,
);

impl JsonPath {
    /// Returns the names, at least one, from the outermost object inwards.
    pub(crate) fn names(&self) -> &[Box<str>] {
        &self.0
    }
}

impl FromStr for JsonPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.len() > MAX_BYTES {
            return Err(PathError("a path has at most 256 bytes"));
        }
        let names: Arc<[Box<str>]> = text.split('.').map(Box::from).collect();
        if names.len() > MAX_NAMES {
            return Err(PathError("a path has at most 16 names"));
        }
        if text.starts_with('$') {
            return Err(PathError(
                "a path begins with the name of a key, and not with `$`",
            ));
        }
        if names.iter().any(|name| name.is_empty()) {
            return Err(PathError("a path has a name between two dots"));
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !names.iter().all(|name| name.bytes().all(is_allowed)) {
            return Err(PathError(
                "the names of a path have letters, digits, `_` and `-`; a path does not enter arrays",
            ));
        }
        Ok(Self(names))
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_by_dots_and_nothing_else_is_a_path() {
        for text in [
            "cost",
            "usage.total_tokens",
            "a.b-c.D_1.0",
            &["a"; 16].join("."),
        ] {
            let path: JsonPath = text.parse().unwrap();
            assert_eq!(path.to_string(), text);
        }
        let long = "a".repeat(257);
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "$",
            "$.a",
            "a[0]",
            "a.*",
            "a b",
            "ä",
            "a\"",
            "/a/b",
            &long,
            &["a"; 17].join("."),
        ] {
            assert!(text.parse::<JsonPath>().is_err(), "{text}");
        }
    }
}
