//! Headers at the border: what belongs to one connection stays there, and what an upstream believes comes from us.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Headers of one connection (RFC 9110, 7.6.1), never forwarded.
static HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
    HTTP2_SETTINGS,
];

/// What says where a request came from: taken from trusted peers, else written anew or removed.
static ORIGIN: [HeaderName; 9] = [
    X_FORWARDED_FOR,
    X_FORWARDED_PROTO,
    X_FORWARDED_HOST,
    FORWARDED,
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-real-ip"),
    HeaderName::from_static("true-client-ip"),
    HeaderName::from_static("cf-connecting-ip"),
    X_REQUEST_ID,
];

/// Where a request came from, as its upstream is told.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) peer: IpAddr,
    pub(super) trusted: bool,
    pub(super) request_id: HeaderValue,
    /// Headers that only trusted peers may send: those that name a user.
    pub(super) vouched: &'a [HeaderName],
}

/// Makes a client's headers fit for the upstream.
pub(super) fn to_upstream(headers: &mut HeaderMap, origin: Origin<'_>, has_body: bool) {
    let trailers = wants_trailers(headers);
    remove_named_by_connection(headers, origin.vouched);
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    // The body is asked for when it is forwarded, so the upstream has nothing to say "continue" to.
    headers.remove(EXPECT);
    remove_aliases(headers, origin.vouched);
    if !origin.trusted {
        for name in ORIGIN.iter().chain(origin.vouched) {
            headers.remove(name);
        }
    }
    join_cookies(headers);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if has_body && !headers.contains_key(CONTENT_LENGTH) {
        // Without this hyper takes a GET for one that has no body.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    append_forwarded_for(headers, origin.peer);
    if !headers.contains_key(X_FORWARDED_PROTO) {
        headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    if !headers.contains_key(X_FORWARDED_HOST)
        && let Some(host) = headers.get(HOST).cloned()
    {
        headers.insert(X_FORWARDED_HOST, host);
    }
    headers.entry(X_REQUEST_ID).or_insert(origin.request_id);
}

/// Makes the trailers after a client's body fit for the upstream. Servers that merge them into the headers must find
/// nothing there that was removed from the headers; what frames or authorises a message hyper leaves out itself.
pub(super) fn trailers_to_upstream(trailers: &mut HeaderMap, vouched: &[HeaderName]) {
    remove_aliases(trailers, vouched);
    for name in HOP_BY_HOP.iter().chain(&ORIGIN).chain(vouched) {
        trailers.remove(name);
    }
    trailers.remove(COOKIE);
}

/// Makes an upstream's headers, or its trailers, fit for the client.
pub(super) fn to_client(headers: &mut HeaderMap) {
    remove_named_by_connection(headers, &[]);
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn wants_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// Removes what `Connection` names, unless the request would mean something else without it.
fn remove_named_by_connection(headers: &mut HeaderMap, vouched: &[HeaderName]) {
    if !headers.contains_key(CONNECTION) {
        return;
    }
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter_map(|token| token.parse().ok())
        .filter(|name| !is_protected(name, vouched))
        .collect();
    for name in named {
        headers.remove(name);
    }
}

fn is_protected(name: &HeaderName, vouched: &[HeaderName]) -> bool {
    [HOST, CONTENT_LENGTH, TRAILER].contains(name)
        || name.as_str().starts_with("x-ratelimit-")
        || *name == http::header::AUTHORIZATION
        || *name == http::header::RETRY_AFTER
        || ORIGIN.contains(name)
        || vouched.contains(name)
}

/// Removes what servers that read `_` as `-` would take for one of our headers.
fn remove_aliases(headers: &mut HeaderMap, vouched: &[HeaderName]) {
    let is_alias = |name: &&HeaderName| {
        let name = name.as_str();
        name.contains('_') && {
            let meant = name.replace('_', "-");
            let ours = ORIGIN.iter().chain(vouched).chain(&HOP_BY_HOP);
            ours.chain(&[HOST, CONTENT_LENGTH])
                .any(|own| own.as_str().replace('_', "-") == meant && own.as_str() != name)
        }
    };
    let aliases: Vec<HeaderName> = headers.keys().filter(is_alias).cloned().collect();
    for name in aliases {
        headers.remove(name);
    }
}

/// HTTP/2 may send a cookie in parts; HTTP/1 has one line for it (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if cookies.nth(1).is_none() {
        return;
    }
    let parts: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    // Parts that are values make a value when they are joined.
    if let Ok(cookie) = HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
        headers.insert(COOKIE, cookie);
    }
}

fn append_forwarded_for(headers: &mut HeaderMap, peer: IpAddr) {
    let peer = peer.to_canonical().to_string();
    let mut hops: Vec<&[u8]> = headers
        .get_all(X_FORWARDED_FOR)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    hops.push(peer.as_bytes());
    if let Ok(hops) = HeaderValue::from_bytes(&hops.join(&b", "[..])) {
        headers.insert(X_FORWARDED_FOR, hops);
    }
}

/// The words of a header that is a list.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}
