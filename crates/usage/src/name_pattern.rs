//! A pattern of short texts, such as the names of models.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// The longest pattern, in bytes.
const MAX_BYTES: usize = 128;

/// A pattern of names: one name, or the beginning of names with `*` behind it. Case matters.
///
/// ```
/// use tidegate_usage::NamePattern;
///
/// let pattern: NamePattern = "large-*".parse()?;
/// assert!(pattern.matches("large-2") && !pattern.matches("small-2"));
/// assert!("large-*-2".parse::<NamePattern>().is_err());
/// # Ok::<(), tidegate_usage::NamePatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamePattern(Box<str>);

/// The error for a text that is not a pattern of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 128 bytes; `*` may only be its last character")]
pub struct NamePatternError;

impl NamePattern {
    /// Returns the pattern as it was written.
    pub const fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the pattern matches a name.
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => *self.0 == *name,
        }
    }

    /// Returns the rank among patterns that match the same name. The first one is the most exact.
    pub fn rank(&self) -> impl Ord + use<> {
        (self.0.ends_with('*'), Reverse(self.0.len()))
    }
}

impl FromStr for NamePattern {
    type Err = NamePatternError;

    fn from_str(text: &str) -> Result<Self, NamePatternError> {
        let beginning = text.strip_suffix('*').unwrap_or(text);
        let is_plain = !beginning.contains(|c: char| c == '*' || c.is_control());
        match is_plain && !text.is_empty() && text.len() <= MAX_BYTES {
            true => Ok(Self(text.into())),
            false => Err(NamePatternError),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_name_or_the_beginning_of_names() {
        for (text, matching, others) in [
            (
                "large",
                &["large"][..],
                &["large-2", "larger", "Large", ""][..],
            ),
            ("large-*", &["large-", "large-2"], &["large", "a-large-2"]),
            ("*", &["", "large"], &[]),
        ] {
            let pattern: NamePattern = text.parse().unwrap();
            assert!(matching.iter().all(|name| pattern.matches(name)), "{text}");
            assert!(!others.iter().any(|name| pattern.matches(name)), "{text}");
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", "*large", "a*b", "**", "a\nb", &"x".repeat(129)] {
            assert_eq!(text.parse::<NamePattern>(), Err(NamePatternError), "{text}");
        }
    }
}
