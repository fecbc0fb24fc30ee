//! Kinds of headers by name. Some servers treat `-` and `_` in names alike, so the gateway treats names that differ only in such characters
//! as the same header.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, RETRY_AFTER, TRAILER};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The kind of a header, which decides whether a proxy forwards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A header of a single connection (RFC 9110, 7.6.1). Never forwarded.
    HopByHop,
    /// A header that describes the origin of a request. Accepted from trusted peers, and rewritten or removed for all other peers.
    Origin,
    /// Another header with a client's address. The gateway does not read it, but an upstream might. So it is removed, even if a trusted
    /// peer sent it.
    OtherAddress,
    /// A header that replaces the request's target, method or host at some upstreams. Only a trusted proxy may send it, and a route may set
    /// it by `request_headers`.
    OtherTarget,
    /// A header that determines the length or the destination of a message.
    Framing,
    /// Any other header. Forwarded from end to end.
    EndToEnd,
}

/// Returns the kind of the header with this name. `name` must be in lower case.
#[inline]
pub fn kind(name: &str) -> Kind {
    if let Some(rest) = name.strip_prefix("x-") {
        return kind_of_x(rest);
    }
    match name {
        "connection"
        | "keep-alive"
        | "proxy-connection"
        | "proxy-authenticate"
        | "proxy-authorization"
        | "te"
        | "transfer-encoding"
        | "upgrade"
        | "http2-settings" => Kind::HopByHop,
        "forwarded" => Kind::Origin,
        "client-ip"
        | "true-client-ip"
        | "proxy-client-ip"
        | "wl-proxy-client-ip"
        | "cf-connecting-ip"
        | "cf-connecting-ipv6"
        | "cf-pseudo-ipv4"
        | "fastly-client-ip"
        | "fly-client-ip"
        | "do-connecting-ip"
        | "incap-client-ip"
        | "cloudfront-viewer-address"
        | "ali-cdn-real-ip"
        | "cdn-src-ip"
        | "forwarded-for" => Kind::OtherAddress,
        "host" | "content-length" | "expect" | "trailer" => Kind::Framing,
        _ => Kind::EndToEnd,
    }
}

/// Returns the kind of a header by the part of its name after `x-`.
fn kind_of_x(rest: &str) -> Kind {
    match rest {
        "forwarded-for" | "forwarded-proto" | "forwarded-host" | "forwarded-port"
        | "request-id" => Kind::Origin,
        // Other proxies put the certificate of their client in these headers.
        "forwarded-client-cert" | "forwarded-tls-client-cert" => Kind::Origin,
        "real-ip"
        | "client-ip"
        | "cluster-client-ip"
        | "remote-ip"
        | "remote-addr"
        | "originating-ip"
        | "original-forwarded-for"
        | "azure-clientip"
        | "azure-socketip"
        | "appengine-user-ip"
        | "appengine-remote-addr"
        | "envoy-external-address"
        | "vercel-forwarded-for"
        | "nf-client-connection-ip"
        | "sucuri-clientip"
        | "proxyuser-ip"
        | "forwarded" => Kind::OtherAddress,
        "original-url"
        | "original-uri"
        | "original-path"
        | "original-host"
        | "original-method"
        | "rewrite-url"
        | "rewrite-uri"
        | "rewrite-path"
        | "override-url"
        | "http-method-override"
        | "http-method"
        | "method-override"
        | "http-destinationurl"
        | "http-host-override"
        | "host"
        | "script-name"
        | "envoy-original-path"
        | "envoy-original-host"
        | "envoy-original-method"
        | "waws-unencoded-url" => Kind::OtherTarget,
        // For example `X-Forwarded-Uri`, `X-Forwarded-Method`, and `X-Forwarded-User`, in which other proxies forward a user name.
        rest if rest.starts_with("forwarded-") => Kind::OtherTarget,
        _ => Kind::EndToEnd,
    }
}

/// Whether the header belongs to one connection.
#[inline]
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    kind(name.as_str()) == Kind::HopByHop
}

/// Whether only the gateway may change this header: a header of the connection, of the message's length or of an origin, or a header in
/// `vouched`. Spellings that some servers treat as the same name count too, such as `_` for `-`.
pub fn is_ours(name: &HeaderName, vouched: &[HeaderName]) -> bool {
    let name = folded(name.as_str());
    let mut vouched = vouched.iter().map(|own| folded(own.as_str()));
    !matches!(kind(&name), Kind::EndToEnd | Kind::OtherTarget) || vouched.any(|own| own == name)
}

/// Whether this header describes a single answer: its content, its caching, its location or its cookies.
pub fn describes_answer(name: &HeaderName) -> bool {
    let name = name.as_str();
    let of_content = name.starts_with("content-") && !name.starts_with("content-security-policy");
    let others = [
        "accept-ranges",
        "age",
        "cache-control",
        "cdn-cache-control",
        "etag",
        "expires",
        "last-modified",
        "location",
        "pragma",
        "set-cookie",
        "surrogate-control",
    ];
    of_content || others.contains(&name)
}

/// Whether this header describes rate limits: `Retry-After`, `RateLimit…` or `X-RateLimit-…`.
pub fn is_limits(name: &HeaderName) -> bool {
    let name = name.as_str();
    *name == *RETRY_AFTER.as_str()
        || name.starts_with("x-ratelimit-")
        || name.starts_with("ratelimit")
}

/// Whether this is a CORS header, which decides whether web pages of other origins may read an answer.
pub fn is_cors(name: &HeaderName) -> bool {
    name.as_str().starts_with("access-control-")
}

/// Returns a name in the form that some servers compare: every character that is no letter and no digit becomes `-`.
pub fn folded(name: &str) -> Cow<'_, str> {
    if !is_odd(name) {
        return Cow::Borrowed(name);
    }
    let fold = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    Cow::Owned(name.chars().map(fold).collect())
}

/// Whether a name in lower case differs from its folded name.
pub fn is_odd(name: &str) -> bool {
    // A fold without an early exit, so that the compiler can vectorise it.
    let odd = |byte: u8| !(byte.is_ascii_lowercase() | byte.is_ascii_digit() | (byte == b'-'));
    name.bytes().fold(false, |any, byte| any | odd(byte))
}

/// Formats an address as the value of a header.
pub fn address(address: IpAddr) -> HeaderValue {
    let text = address.to_canonical().to_string();
    // Every character of an address is valid in a header.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Removes the hop-by-hop headers from an answer, or from its trailers.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.keys().any(is_hop_by_hop) {
        remove_named_by_connection(headers, |_| false);
        remove_all(headers, is_hop_by_hop);
    }
}

/// Removes the headers for which `is_unwanted` is true. A scan of a message's few headers takes less time than a lookup of each unwanted
/// name.
pub fn remove_all(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    while let Some(name) = headers.keys().find(|name| is_unwanted(name)).cloned() {
        headers.remove(name);
    }
}

/// Removes the headers that `Connection` names. Keeps a header if `is_protected` is true for it, or if the message would change its meaning
/// without the header.
pub fn remove_named_by_connection(
    headers: &mut HeaderMap,
    is_protected: impl Fn(&HeaderName) -> bool,
) {
    // Most requests have only these values of `Connection`. `close` names no header, and `keep-alive` is removed as a hop-by-hop header.
    let usual = |value: &[u8]| {
        [&b"keep-alive"[..], b"close"]
            .iter()
            .any(|usual| value.eq_ignore_ascii_case(usual))
    };
    let mut values = headers.get_all(CONNECTION).iter();
    if values.all(|value| usual(value.as_bytes())) {
        return;
    }
    let named: Vec<HeaderName> = tokens(headers, &CONNECTION)
        .filter(|token| !usual(token.as_bytes()))
        .filter_map(|token| token.parse().ok())
        .filter(|name| !changes_meaning(name) && !is_protected(name))
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// Whether a message would change its meaning without this header.
fn changes_meaning(name: &HeaderName) -> bool {
    [HOST, CONTENT_LENGTH, TRAILER, AUTHORIZATION].contains(name)
        || is_limits(name)
        || kind(name.as_str()) == Kind::Origin
}

/// Returns the elements of a header whose value is a comma-separated list.
pub fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}
