//! The query of a request: names and their values, as forms are written (WHATWG URL, 5.1).
//!
//! `&` separates parameters, and the first `=` ends a name. `+` is a blank. Escapes are decoded once, in names too, and a broken escape
//! stays as it is. Names are compared byte by byte.

use std::borrow::Cow;

use tidegate_net::path::decode;

/// The value under one name of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryValue<'a> {
    /// The name is not there.
    Missing,
    /// The name is there once, with this value, which may be empty.
    One(Cow<'a, [u8]>),
    /// The name is there more than once. Servers differ in which of the values they read.
    Several,
}

impl<'a> QueryValue<'a> {
    /// Returns the value in `query` under `name`, which is written without escapes.
    pub fn of(query: &'a str, name: &str) -> Self {
        let mut values = query_values(query, name);
        match (values.next(), values.next()) {
            (None, _) => Self::Missing,
            (Some(value), None) => Self::One(value),
            (Some(_), Some(_)) => Self::Several,
        }
    }
}

/// Returns all values in `query` under `name`, which is written without escapes.
pub fn query_values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    raw_values(query, name).map(|value| percent_decoded(Cow::Borrowed(value.unwrap_or_default())))
}

/// Returns the values under `name` with their escapes; none for a parameter without `=`.
fn raw_values<'a>(query: &'a str, name: &str) -> impl Iterator<Item = Option<&'a [u8]>> {
    let parameters = query.as_bytes().split(|byte| *byte == b'&');
    parameters.filter_map(move |parameter| {
        let mut parts = parameter.splitn(2, |byte| *byte == b'=');
        let is_named = decoded(parts.next()?).eq(name.bytes());
        is_named.then(|| parts.next())
    })
}

/// Returns the names of all parameters without their escapes, also where a server splits at `;`.
pub(crate) fn names(query: &str) -> impl Iterator<Item = Vec<u8>> {
    let parameters = query.as_bytes().split(|byte| matches!(byte, b'&' | b';'));
    parameters.map(|parameter| {
        let name = parameter.split(|byte| *byte == b'=').next();
        decoded(name.unwrap_or_default()).collect()
    })
}

/// Whether a server that splits at `;` reads only a part of a value under `name`.
pub(crate) fn is_split(query: &str, name: &str) -> bool {
    let mut values = raw_values(query, name).flatten();
    values.any(|value| value.contains(&b';'))
}

/// Returns a value without its percent-encoding.
pub(crate) fn percent_decoded(value: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match value.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        true => Cow::Owned(decoded(&value).collect()),
        false => value,
    }
}

/// Decodes escapes, and blanks that are written as `+`.
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
