//! Fills in `${NAME}` and `${NAME:-default}` in values, from the environment.
//!
//! Variables are filled in after the YAML has been read, and in values only. So a variable cannot change the structure of the file, and
//! quoted and bare values are treated alike. The YAML library could fill in variables, too. But it would fill in bare values only, or
//! replace a missing variable by an empty text. Only variables that the file names are looked up.

use std::borrow::Cow;

/// The reason why a value could not be filled in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unfilled<'a> {
    /// The text from `${` to `}`, or to the end of the value.
    pub(crate) reference: &'a str,
    /// The mistake in the reference.
    pub(crate) why: Why<'a>,
}

/// A mistake in a reference to a variable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Why<'a> {
    /// The reference has no default, and its variable is not set or is empty.
    Unset(&'a str),
    /// The reference begins with `${`, but is neither `${NAME}` nor `${NAME:-default}`.
    Form,
    /// The value with its variables filled in is longer than [`MAX_FILLED`].
    Long,
}

/// The longest value with its variables filled in, in bytes. Without a bound, a few references to a long variable could fill the memory.
const MAX_FILLED: usize = 1 << 20;

/// Fills in a value's variables. `$${` stands for the characters `${`.
///
/// # Errors
///
/// A variable is not set, a reference is malformed, or the value is too long.
pub(crate) fn expand<'a>(
    text: &'a str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Cow<'a, str>, Unfilled<'a>> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if let Some(before) = rest[..at].strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        filled.push_str(&rest[..at]);
        let end = rest[at..].find('}').map(|length| at + length + 1);
        let reference = &rest[at..end.unwrap_or(rest.len())];
        let unfilled = |why| Unfilled { reference, why };
        let (name, default) = split(reference).ok_or_else(|| unfilled(Why::Form))?;
        let value = env(name).filter(|value| !value.is_empty());
        match (value, default) {
            (Some(value), _) => filled.push_str(&value),
            (None, Some(default)) => filled.push_str(default),
            (None, None) => return Err(unfilled(Why::Unset(name))),
        }
        if filled.len() > MAX_FILLED {
            return Err(unfilled(Why::Long));
        }
        rest = &rest[at + reference.len()..];
    }
    Ok(Cow::Owned(filled + rest))
}

/// Splits `${NAME:-default}` into the name and the default.
fn split(reference: &str) -> Option<(&str, Option<&str>)> {
    let inner = reference.strip_prefix("${")?.strip_suffix('}')?;
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_word = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (starts_well && is_word).then_some((name, default))
}

#[cfg(test)]
mod tests;
