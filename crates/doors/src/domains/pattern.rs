//! Patterns of values: any value, one value, or a text with `*` in it.

/// The values of a key that match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePattern {
    /// Any value.
    Any,
    /// This value.
    Exactly(Box<str>),
    /// Values with these texts in this order: the first at the start, the last at the end. Any text may stand between them. The list has at
    /// least two texts.
    Parts(Box<[Box<str>]>),
}

impl ValuePattern {
    /// Reads a pattern. Each `*` in the text stands for any characters, also for none.
    pub fn new(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            text if text.contains('*') => Self::Parts(text.split('*').map(Into::into).collect()),
            text => Self::Exactly(text.into()),
        }
    }

    /// Returns the only value that matches. `None` if the pattern has a `*`.
    pub fn exact(&self) -> Option<&str> {
        match self {
            Self::Exactly(value) => Some(value),
            Self::Any | Self::Parts(_) => None,
        }
    }

    /// Whether this value matches.
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(exact) => **exact == *value,
            Self::Parts(parts) => has_parts(parts, value),
        }
    }

    /// Whether every value that matches `other` also matches this pattern. False for some such patterns with a `*` in the middle.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exactly(value)) => self.matches(value),
            (Self::Parts(parts), Self::Parts(others)) => {
                let prefix = match &**parts {
                    [prefix, end] if end.is_empty() => Some(prefix),
                    _ => None,
                };
                let starts = prefix.zip(others.first());
                parts == others
                    || starts.is_some_and(|(prefix, other)| other.starts_with(&**prefix))
            }
            (Self::Any, _) => true,
            _ => false,
        }
    }
}

/// Whether a value has these texts in this order, from its start to its end.
fn has_parts(parts: &[Box<str>], value: &str) -> bool {
    let [first, middle @ .., last] = parts else {
        return false;
    };
    let rest = value.strip_prefix(&**first);
    let Some(mut rest) = rest.and_then(|rest| rest.strip_suffix(&**last)) else {
        return false;
    };
    middle.iter().all(|part| match rest.find(&**part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}
