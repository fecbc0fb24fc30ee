//! Restricts the compression of an answer whose body the gateway must read.

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};
use tidegate_net::headers::tokens;

/// Sets `Accept-Encoding` to `gzip` if the client accepts gzip, otherwise to `identity`, which allows no compression. The gateway reads
/// gzip and no other compression.
///
/// `headers` are the headers of the request.
pub fn accept_readable(headers: &mut HeaderMap) {
    let encoding = match takes_gzip(headers) {
        true => "gzip",
        false => "identity",
    };
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
}

/// Whether the client accepts gzip (RFC 9110, 12.5.3).
fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut any = false;
    for coding in tokens(headers, &ACCEPT_ENCODING) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_taken = !parts.any(is_zero);
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            return is_taken;
        }
        any |= name == "*" && is_taken;
    }
    any
}

/// Whether this parameter excludes the coding (`q=0`).
fn is_zero(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| {
        name.trim().eq_ignore_ascii_case("q")
            && value.trim().parse().is_ok_and(|value: f32| value == 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_asked_for_where_the_client_takes_it() {
        for (accepted, expected) in [
            (&["gzip"][..], "gzip"),
            (&["br, GZIP;q=0.5, zstd"], "gzip"),
            (&["br", "x-gzip"], "gzip"),
            (&["*"], "gzip"),
            (&["br, *;q=0.1"], "gzip"),
            (&["gzip;q=1, *;q=0"], "gzip"),
            (&[], "identity"),
            (&[""], "identity"),
            (&["br, zstd, deflate"], "identity"),
            (&["gzip;q=0"], "identity"),
            (&["*, gzip; Q=0.000"], "identity"),
            (&["gzipped, agzip"], "identity"),
        ] {
            let mut headers = HeaderMap::new();
            for value in accepted {
                headers.append(ACCEPT_ENCODING, value.parse().unwrap());
            }
            accept_readable(&mut headers);
            let values: Vec<_> = headers.get_all(ACCEPT_ENCODING).iter().collect();
            assert_eq!(values, [expected], "{accepted:?}");
        }
    }
}
