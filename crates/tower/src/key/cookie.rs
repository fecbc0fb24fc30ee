//! A cookie's value, as a key counts it.
//!
//! Servers read a `Cookie` header in different ways. One takes the first of several values, another the last. Some split at commas
//! or blanks, some ignore case, and some decode escapes. A value that servers may read in two ways is no value here.

use std::borrow::Cow;

use http::Request;
use http::header::COOKIE;

use super::spelling::{folds_to, percent_decoded};

/// The value of the cookie `name`; none if it is missing, empty, or there with two values.
pub(super) fn cookie<'a, B>(request: &'a Request<B>, name: &str) -> Option<Cow<'a, [u8]>> {
    let lines = || request.headers().get_all(COOKIE).iter();
    let mut values = lines().flat_map(|line| values(line.as_bytes(), name));
    let value = values.next()?;
    let others = values.try_fold(0, |count, other| (other == value).then_some(count + 1))?;
    let named: usize = lines().map(|line| count_named(line.as_bytes(), name)).sum();
    (named == others + 1 && !value.is_empty()).then_some(value)
}

/// The values of the pairs with this name (RFC 6265, 4.2.1).
fn values<'a>(line: &'a [u8], name: &str) -> impl Iterator<Item = Cow<'a, [u8]>> {
    line.split(|byte| *byte == b';').filter_map(move |pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let is_named = pair[..equals].trim_ascii() == name.as_bytes();
        is_named.then(|| percent_decoded(unquoted(pair[equals + 1..].trim_ascii())))
    })
}

/// How often some server may find the name before a `=`.
fn count_named(line: &[u8], name: &str) -> usize {
    let ends_other = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b';' | b',' | b'"');
    let is_named = |at: &usize| {
        let Some((found, after)) = line[*at..].split_at_checked(name.len()) else {
            return false;
        };
        let begins = *at == 0 || ends_other(&line[at - 1]);
        begins && after.trim_ascii_start().starts_with(b"=") && folds_to(found, name)
    };
    (0..line.len()).filter(is_named).count()
}

/// A quoted value without its quotes and escapes (RFC 2109, as Python's `http.cookies` reads it).
fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    let Some(mut rest) = inner else {
        return Cow::Borrowed(value);
    };
    if !rest.contains(&b'\\') {
        return Cow::Borrowed(rest);
    }
    let mut plain = Vec::with_capacity(rest.len());
    while let Some((&first, after)) = rest.split_first() {
        let (byte, after) = match (first, after) {
            (
                b'\\',
                [
                    a @ b'0'..=b'3',
                    b @ b'0'..=b'7',
                    c @ b'0'..=b'7',
                    after @ ..,
                ],
            ) => (((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'), after),
            (b'\\', [escaped, after @ ..]) => (*escaped, after),
            _ => (first, after),
        };
        plain.push(byte);
        rest = after;
    }
    Cow::Owned(plain)
}
