//! Reads a cookie's value for a key.
//!
//! Servers read a `Cookie` header in different ways. For a name with several values, some servers take the first value and others the last.
//! Some servers split at commas or blanks, some ignore case, and some decode escapes. If servers may read different values, this module
//! treats the cookie as missing.

use std::borrow::Cow;

use http::Request;
use http::header::COOKIE;

use super::folds_to;
use crate::query::percent_decoded;

/// Returns the value of the cookie `name`. `None` if the cookie is missing or empty, has two different values, or if servers may read
/// different values.
pub fn cookie_value<'a, B>(request: &'a Request<B>, name: &str) -> Option<Cow<'a, [u8]>> {
    let lines = || request.headers().get_all(COOKIE).iter();
    let raw = || lines().flat_map(|line| values(line.as_bytes(), name));
    if !raw().all(is_whole) {
        return None;
    }
    let mut values = raw().map(|value| percent_decoded(unquoted(value)));
    let value = values.next()?;
    let others = values.try_fold(0, |count, other| (other == value).then_some(count + 1))?;
    let named: usize = lines().map(|line| count_named(line.as_bytes(), name)).sum();
    (named == others + 1 && !value.is_empty()).then_some(value)
}

/// Returns the values of the pairs with this name, without decoding them (RFC 6265, 4.2.1).
fn values<'a>(line: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    line.split(|byte| *byte == b';').filter_map(move |pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let is_named = pair[..equals].trim_ascii() == name.as_bytes();
        is_named.then(|| pair[equals + 1..].trim_ascii())
    })
}

/// Counts the positions in a `Cookie` line at which at least one kind of server may read `name` before a `=`. Takes time linear in the
/// length of the line, because clients can send long lines.
fn count_named(line: &[u8], name: &str) -> usize {
    let ends_other = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b';' | b',' | b'"');
    let mut count = 0;
    for at in (0..line.len()).filter(|at| line[*at] == b'=') {
        let before = line[..at].trim_ascii_end();
        if let Some(start) = before.len().checked_sub(name.len())
            && (start == 0 || ends_other(&before[start - 1]))
            && folds_to(&before[start..], name)
        {
            count += 1;
        }
    }
    count
}

/// Whether all servers read the value to its end. Some servers end a value at a blank, a comma or a quote. RFC 6265, 4.1.1, does not allow
/// these characters in values.
fn is_whole(value: &[u8]) -> bool {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'"');
    !in_quotes(value).unwrap_or(value).iter().any(ends)
}

/// Returns the inside of a quoted value.
fn in_quotes(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// Removes the quotes and escapes of a quoted value (RFC 2109, as Python's `http.cookies` reads it).
fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(mut rest) = in_quotes(value) else {
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
