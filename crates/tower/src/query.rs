//! Reads the query of a request as names and values, like a submitted form (WHATWG URL, 5.1).
//!
//! `&` separates parameters, and the first `=` ends a name. `+` stands for a blank. Escapes in names and values are decoded once, and a
//! broken escape stays unchanged. Names are compared byte by byte.

use std::borrow::Cow;

use tidegate_net::path::decode;

/// The value under one name of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryValue<'a> {
    /// The query does not have the name.
    Missing,
    /// The query has the name once, with this value, which may be empty.
    One(Cow<'a, [u8]>),
    /// The query has the name more than once. Servers differ in the value that they use.
    Several,
}

impl<'a> QueryValue<'a> {
    /// Returns the value in `query` under `name`. `name` has no escapes.
    pub fn of(query: &'a str, name: &str) -> Self {
        let mut values = query_values(query, name);
        match (values.next(), values.next()) {
            (None, _) => Self::Missing,
            (Some(value), None) => Self::One(value),
            (Some(_), Some(_)) => Self::Several,
        }
    }
}

/// Returns all values in `query` under `name`. `name` has no escapes.
pub fn query_values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    raw_values(query, name).map(|value| percent_decoded(Cow::Borrowed(value.unwrap_or_default())))
}

/// Returns the values under `name` before decoding. The value of a parameter without `=` is `None`.
fn raw_values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = Option<&'a [u8]>> {
    let parameters = query.as_bytes().split(|byte| *byte == b'&');
    parameters.filter_map(move |parameter| {
        let mut parts = parameter.splitn(2, |byte| *byte == b'=');
        let is_named = decoded(parts.next()?).eq(name.bytes());
        is_named.then(|| parts.next())
    })
}

/// Returns the decoded names of all parameters. Treats `;` as a separator as well, because some servers do.
pub(crate) fn names(query: &str) -> impl Iterator<Item = Vec<u8>> {
    let parameters = query.as_bytes().split(|byte| matches!(byte, b'&' | b';'));
    parameters.map(|parameter| {
        let name = parameter.split(|byte| *byte == b'=').next();
        decoded(name.unwrap_or_default()).collect()
    })
}

/// Whether servers that split at `;` would read only a part of a value under `name`.
pub(crate) fn is_split(query: &str, name: &str) -> bool {
    let mut values = raw_values(query, name).flatten();
    values.any(|value| value.contains(&b';'))
}

/// Returns a value with its percent-encoding decoded, and each `+` as a blank.
pub(crate) fn percent_decoded(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match value.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        true => Cow::Owned(decoded(&value).collect()),
        false => value,
    }
}

/// Decodes escapes, and decodes `+` as a blank.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        if let Some(byte) = decode(rest) {
            rest = &after[2..];
            return Some(byte);
        }
        rest = after;
        Some(if first == b'+' { b' ' } else { first })
    })
}

#[cfg(test)]
mod tests;
