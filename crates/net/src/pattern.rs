//! Patterns of a route's `path`, parsed once from the configuration.
//!
//! A pattern matches paths that [`path::normalize`] returned. Matching does not allocate, except for a pattern that ignores case.

use std::borrow::Cow;
use std::fmt;

use crate::path::{self, EncodedSlashes, PathError};

/// A route's path. In `/api/rides/{id}`, `{id}` matches one segment. In `/files/**`, `/**` matches any number of further segments, even
/// none.
///
/// A trailing slash and the `;parameters` of a segment are ignored. A pattern that [ignores case](Self::ignoring_case)
/// compares the [caseless] form of both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    segments: Vec<Segment>,
    rest: bool,
    ignores_case: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Named(String),
}

impl PathPattern {
    /// Parses a pattern of the configuration.
    ///
    /// # Errors
    ///
    /// The text is no valid pattern.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        Self::read(text).map_err(|error| match error {
            // The texts of errors about braces already contain the remedy.
            PatternError::Name(_) | PatternError::NameTwice(_) => error,
            _ if is_expression(text) => PatternError::Expression,
            _ => error,
        })
    }

    fn read(text: &str) -> Result<Self, PatternError> {
        let body = text.strip_prefix('/').ok_or(PatternError::Relative)?;
        if let Some(character) = text.chars().find(|c| matches!(c, '?' | '#' | ';')) {
            return Err(PatternError::NotPath(character));
        }
        let mut pattern = Self {
            text: text.to_owned(),
            segments: Vec::new(),
            rest: false,
            ignores_case: false,
        };
        for segment in body.split_terminator('/') {
            if pattern.rest {
                return Err(PatternError::Star);
            }
            if segment == "**" {
                pattern.rest = true;
                continue;
            }
            let segment = Segment::parse(segment)?;
            if let Segment::Named(name) = &segment
                && pattern.segments.contains(&segment)
            {
                return Err(PatternError::NameTwice(name.clone()));
            }
            pattern.segments.push(segment);
        }
        Ok(pattern)
    }

    /// Returns the pattern for an upstream that ignores the case of letters, and dots at the end of a segment.
    #[must_use]
    pub fn ignoring_case(mut self) -> Self {
        for segment in &mut self.segments {
            if let Segment::Literal(literal) = segment {
                *literal = caseless(literal).into_owned();
            }
        }
        self.ignores_case = true;
        self
    }

    /// Whether the pattern ignores case, and dots at the end of a segment.
    pub const fn ignores_case(&self) -> bool {
        self.ignores_case
    }

    /// Whether this pattern matches a normalised path.
    pub fn matches(&self, path: &str) -> bool {
        let mut names = names(path);
        self.segments
            .iter()
            .all(|segment| names.next().is_some_and(|name| self.takes(segment, name)))
            && (self.rest || names.next().is_none())
    }

    fn takes(&self, segment: &Segment, name: &str) -> bool {
        match segment {
            Segment::Literal(literal) if self.ignores_case => {
                *caseless(&path::plain(name)) == **literal
            }
            Segment::Literal(literal) => path::is_plainly(name, literal),
            Segment::Named(_) => true,
        }
    }

    /// Whether each segment matches at least all names that the segment of `other` at the same position matches. Ignores the segments that
    /// only one pattern has.
    fn takes_all(&self, other: &Self) -> bool {
        let mut pairs = self.segments.iter().zip(&other.segments);
        pairs.all(|pair| match pair {
            (Segment::Named(_), _) => true,
            (Segment::Literal(_), Segment::Named(_)) => false,
            (Segment::Literal(mine), Segment::Literal(theirs)) => match self.ignores_case {
                true => *mine == caseless(theirs),
                // If `other` ignores case, it matches spellings that this pattern does not match.
                false => !other.ignores_case && mine == theirs,
            },
        })
    }

    /// Returns the index of the segment `{name}`.
    fn position(&self, name: &str) -> Option<usize> {
        let is_it = |segment: &Segment| matches!(segment, Segment::Named(named) if named == name);
        self.segments.iter().position(is_it)
    }

    /// Returns the segments of the pattern without the final `/**`: the text of a literal, or `None` for `{name}`, which matches any
    /// segment.
    pub fn segments(&self) -> impl Iterator<Item = Option<&str>> + Clone {
        self.segments.iter().map(|segment| match segment {
            Segment::Literal(literal) => Some(literal.as_str()),
            Segment::Named(_) => None,
        })
    }

    /// Whether the pattern ends with `/**`.
    pub const fn has_rest(&self) -> bool {
        self.rest
    }

    /// Returns the number of segments of this pattern, if they match the beginning of every path that `other` matches.
    pub fn begins(&self, other: &Self) -> Option<usize> {
        let count = self.segments.len();
        let begins = !self.rest && other.segments.len() >= count && self.takes_all(other);
        begins.then_some(count)
    }

    /// Whether the pattern has a segment `{name}`.
    pub fn names(&self, name: &str) -> bool {
        self.position(name).is_some()
    }

    /// Returns the segment that `{name}` matches in a matching path, in the form that keys compare.
    pub fn capture<'path>(&self, path: &'path str, name: &str) -> Option<Cow<'path, str>> {
        let value = path::plain(names(path).nth(self.position(name)?)?);
        Some(match self.ignores_case {
            true => caseless_cow(value),
            false => value,
        })
    }

    /// Whether this pattern matches every path that `other` matches.
    pub fn covers(&self, other: &Self) -> bool {
        let long_enough = if self.rest {
            other.segments.len() >= self.segments.len()
        } else {
            other.segments.len() == self.segments.len() && !other.rest
        };
        long_enough && self.takes_all(other)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, PatternError> {
        if text.contains('*') {
            return Err(PatternError::Star);
        }
        if text.contains(['{', '}']) {
            return text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'))
                .filter(|name| {
                    !name.is_empty()
                        && name
                            .bytes()
                            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                })
                .map(|name| Self::Named(name.to_owned()))
                .ok_or_else(|| PatternError::Name(text.to_owned()));
        }
        // A route may keep encoded slashes, so its pattern may contain them.
        let slashed = format!("/{text}");
        let normal = path::normalize(&slashed, EncodedSlashes::Keep).map_err(PatternError::Path)?;
        match path::plain(&normal[1..]) {
            plain if plain.is_empty() => Err(PatternError::EmptySegment),
            plain if plain == text => Ok(Self::Literal(text.to_owned())),
            plain => Err(PatternError::Spelling(plain.into_owned())),
        }
    }
}

/// Returns the form in which upstreams that ignore case compare a segment: ASCII letters in lower case, and no dots at the end. A segment
/// that has only dots stays unchanged. Letters outside ASCII keep their case.
pub fn caseless(name: &str) -> Cow<'_, str> {
    let trimmed = name.trim_end_matches('.');
    let name = if trimmed.is_empty() { name } else { trimmed };
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    Cow::Borrowed(name)
}

/// Returns the [`caseless`] form of a segment.
pub(crate) fn caseless_cow(name: Cow<'_, str>) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(name) => caseless(name),
        Cow::Owned(name) => Cow::Owned(caseless(&name).into_owned()),
    }
}

/// Returns the segments of a normalised path without their parameters. Omits empty segments. So a trailing slash has no effect. `/;a/b` is
/// matched as `/b`, because some servers read it as `/b`.
pub fn names(path: &str) -> impl Iterator<Item = &str> + Clone {
    let mut rest = Some(path);
    let names = std::iter::from_fn(move || {
        let path = rest?;
        // The scan is written by hand: for texts as short as segments, `str::split` is three times slower.
        let end = path.bytes().position(|byte| matches!(byte, b'/' | b';'));
        let (name, behind) = path.split_at_checked(end.unwrap_or(path.len()))?;
        let slash = behind.bytes().position(|byte| byte == b'/');
        rest = slash.and_then(|at| behind.get(at + 1..));
        Some(name)
    });
    names.filter(|name| !name.is_empty())
}

/// Whether an invalid pattern looks like a regular expression.
fn is_expression(text: &str) -> bool {
    let signs = ["[", ".*", ".+", "(?", "\\d", "\\w", "\\.", "\\/"];
    let has_choice = text.contains('(') && text.contains('|');
    // An nginx configuration marks a regular expression with `~`, as in `~ ^/api`.
    let has_ends = text.starts_with(['~', '^']) || text.ends_with('$');
    has_choice || has_ends || signs.iter().any(|sign| text.contains(sign))
}

/// The reason why a path of the configuration is refused, with the allowed form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A path that does not start with `/`.
    #[error("a path starts with `/`")]
    Relative,
    /// A character that never occurs in the part of a path that is matched.
    #[error("`{0}` cannot be part of a path: queries, fragments and `;parameters` are not matched")]
    NotPath(char),
    /// A `*` that is not the final `/**`.
    #[error("`*` is allowed only in a final `/**`, which is any rest")]
    Star,
    /// A brace that does not enclose a whole segment, or a name with other characters.
    #[error(
        "`{0}` is not allowed: `{{name}}` is a whole segment, its name letters, digits and `_`"
    )]
    Name(String),
    /// A name that the path has twice.
    #[error("`{{{0}}}` is in the path twice: each name must differ")]
    NameTwice(String),
    /// A segment that normalisation removes.
    #[error("a path has no empty, `.` or `..` segments: the gateway removes them from requests")]
    EmptySegment,
    /// A segment that is not in normal form. Holds its normal form.
    #[error("requests are compared in normal form: write `{0}` here")]
    Spelling(String),
    /// A regular expression.
    #[error(
        "a path is no regular expression: write one route per path, with `{{name}}` for a segment and a final `/**` for any rest"
    )]
    Expression,
    /// A segment that no request can have.
    #[error("no request can match: {0}")]
    Path(PathError),
}

#[cfg(test)]
mod tests;
