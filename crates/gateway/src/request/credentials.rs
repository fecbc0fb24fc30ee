//! Reads credentials of a request: HTTP Basic (RFC 7617), bearer tokens (RFC 6750) and cookies.

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};

/// Returns the value of the header `Authorization` if there is exactly one.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.as_bytes();
    values.next().is_none().then_some(value)
}

/// Returns the token of a header `Authorization: Bearer …`; `None` for another scheme.
pub(crate) fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, shown) = value.split_at_checked(b"Bearer ".len())?;
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer ");
    is_bearer.then(|| shown.trim_ascii())
}

/// Returns the password of a header `Authorization: Basic …`; `None` for another scheme or a malformed value.
pub(crate) fn password(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = value.split_at_checked(b"Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let mut decoded = decode(credentials.trim_ascii())?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    Some(decoded.split_off(colon + 1))
}

/// Returns the values of all cookies with this name.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let value = pair.trim_ascii_start().strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=")
    })
}

/// Decodes base64 (RFC 4648, section 4), with or without padding.
fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let text = &text[..text.len() - padding];
    if padding > 2 || text.len() % 4 == 1 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(six), held + 6);
        if held >= 8 {
            held -= 8;
            // The cast keeps the lowest eight bits, which are the next byte.
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_behind_the_first_colon() {
        for (value, expected) in [
            ("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", Some("open sesame")),
            ("basic QWxhZGRpbjpvcGVuIHNlc2FtZQ", Some("open sesame")),
            ("Basic OmE6Yg==", Some("a:b")),
            ("Basic Og==", Some("")),
            ("Basic YWI=", None),
            ("Basic Y", None),
            ("Basic Og===", None),
            ("Basic O g==", None),
            ("Basic ", None),
            ("Basic", None),
            ("Bearer OmE6Yg==", None),
        ] {
            let expected = expected.map(|text| text.as_bytes().to_vec());
            assert_eq!(password(value.as_bytes()), expected, "{value}");
        }
    }
}
