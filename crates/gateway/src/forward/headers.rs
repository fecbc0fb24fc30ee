//! Removes hop-by-hop headers, and sets the forwarding headers for upstreams.

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, Entry, FORWARDED, HOST, TE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use tidegate_identity::{AddressFrom, Client, Clients};
use tidegate_net::headers::{
    Kind, address, folded, is_odd, kind, remove_all, remove_named_by_connection, tokens,
};
use tidegate_telemetry::RequestId;

use super::read_headers::ReadHeaders;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The origin of a request, which its upstream receives in headers.
#[derive(Debug)]
pub(super) struct Origin<'a> {
    pub(super) peer: IpAddr,
    /// Whether the peer is trusted, so that its forwarding headers are kept.
    pub(super) trusted: bool,
    /// The peer's address as text.
    pub(super) hop: &'a HeaderValue,
    pub(super) clients: &'a Clients,
    pub(super) request_id: HeaderValue,
    /// The headers that the gateway reads on this route.
    pub(super) read: &'a ReadHeaders,
    /// The client; `None` if the upstream does not receive the client's name.
    pub(super) client: Option<&'a Client>,
    /// Whether the client's connection uses TLS.
    pub(super) is_tls: bool,
}

/// Changes a client's headers into the headers for the upstream.
pub(super) fn to_upstream(headers: &mut HeaderMap, origin: Origin<'_>, has_body: bool) {
    // For most requests, this single pass shows that no header has to be removed or changed.
    let is_plain = |name: &HeaderName| {
        let text = name.as_str();
        let kind = kind(text);
        (kind == Kind::EndToEnd || *name == HOST || *name == CONTENT_LENGTH)
            && *name != COOKIE
            && !origin.read.vouches(name)
            && !origin.read.may_be_alias(text)
    };
    if !headers.keys().all(is_plain) {
        clean(headers, &origin);
    }
    if has_body && !headers.contains_key(CONTENT_LENGTH) {
        // Without this header, hyper would send a GET without its body.
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    tell_hops(headers, &origin);
    tell_client(headers, &origin);
    let proto = if origin.is_tls { "https" } else { "http" };
    let proto = HeaderValue::from_static(proto);
    headers.entry(X_FORWARDED_PROTO).or_insert(proto);
    if let Some(host) = headers.get(HOST).cloned() {
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
    headers.entry(X_REQUEST_ID).or_insert(origin.request_id);
}

/// Removes the client's headers that an upstream must not see.
fn clean(headers: &mut HeaderMap, origin: &Origin<'_>) {
    let trailers = wants_trailers(headers);
    remove_named_by_connection(headers, |name| origin.read.reads(name));
    remove_aliases(headers, origin.read);
    remove_all(headers, |name| match kind(name.as_str()) {
        Kind::HopByHop | Kind::OtherAddress => true,
        Kind::Origin | Kind::OtherTarget => !origin.trusted,
        // The gateway itself answers `Expect` when it forwards the body, so the upstream must not see it.
        Kind::Framing => *name == EXPECT,
        Kind::EndToEnd => !origin.trusted && origin.read.vouches(name),
    });
    join_cookies(headers);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        // In HTTP/1, `Connection` must name `TE` (RFC 9110, 10.1.4).
        headers.insert(CONNECTION, HeaderValue::from_static("TE"));
    }
}

/// Removes fields from the trailers after a client's body. Servers may merge trailers into headers, so fields that are removed from headers
/// are removed here as well. hyper itself leaves out fields that frame or authorise a message.
pub(super) fn trailers_to_upstream(trailers: &mut HeaderMap, read: &ReadHeaders) {
    remove_aliases(trailers, read);
    remove_all(trailers, |name| match kind(name.as_str()) {
        Kind::HopByHop | Kind::Origin | Kind::OtherAddress | Kind::OtherTarget => true,
        Kind::Framing | Kind::EndToEnd => read.reads(name) || *name == COOKIE,
    });
}

fn wants_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

/// Removes headers that some servers would mistake for a header that the gateway reads or writes: see [`ReadHeaders`].
fn remove_aliases(headers: &mut HeaderMap, read: &ReadHeaders) {
    let is_known = |name: &str| match kind(&folded(name)) {
        Kind::HopByHop | Kind::Origin | Kind::OtherAddress | Kind::OtherTarget => true,
        Kind::Framing => [HOST, CONTENT_LENGTH]
            .iter()
            .any(|own| *own == *folded(name)),
        Kind::EndToEnd => false,
    };
    remove_all(headers, |name| {
        let text = name.as_str();
        read.may_be_alias(text) && ((is_odd(text) && is_known(text)) || read.is_alias(name))
    });
}

/// Joins the `Cookie` headers of a request into one header. An HTTP/2 client may send several, but HTTP/1 allows only one (RFC 9113,
/// 8.2.3).
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
    // Joining valid values makes a valid value.
    if let Ok(cookie) = HeaderValue::from_bytes(&parts.join(&b"; "[..])) {
        headers.insert(COOKIE, cookie);
    }
}

/// Adds the peer to the list of hops in `X-Forwarded-For`, and in `Forwarded` if the gateway reads addresses from `Forwarded`. Removes a
/// list from the header that the gateway does not read. Trusted proxies do not set this header, so a client could forge the list.
fn tell_hops(headers: &mut HeaderMap, origin: &Origin<'_>) {
    let Origin { peer, clients, .. } = origin;
    let peer = peer.to_canonical();
    match clients.address_from {
        AddressFrom::XForwardedFor => {
            headers.remove(FORWARDED);
        }
        AddressFrom::Connection => {
            headers.remove(FORWARDED);
            headers.remove(X_FORWARDED_FOR);
        }
        AddressFrom::Forwarded => {
            headers.remove(X_FORWARDED_FOR);
            let first = clients.trusted.origin(peer, headers, clients.address_from);
            let open = is_open(headers);
            if open {
                headers.remove(FORWARDED);
            }
            if first != peer {
                append(headers, X_FORWARDED_FOR, &address(first));
                if open {
                    append(headers, FORWARDED, &node(first));
                }
            }
            append(headers, FORWARDED, &node(peer));
        }
    }
    append(headers, X_FORWARDED_FOR, origin.hop);
}

/// Formats an address for `Forwarded` (RFC 7239, 6).
fn node(address: IpAddr) -> HeaderValue {
    let text = match address {
        IpAddr::V4(_) => format!("for={address}"),
        IpAddr::V6(_) => format!("for=\"[{address}]\""),
    };
    // An address has only valid characters of a header.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Sets `X-Request-Id` of an answer to the request ID in the access log. Replaces an ID that the upstream sent.
pub(crate) fn identify<B>(response: &mut Response<B>, id: Option<RequestId>) {
    if let Some(id) = id {
        let id = id.into_header();
        response.headers_mut().insert(X_REQUEST_ID, id);
    }
}

/// Whether a quote in `Forwarded` is not closed, so that an appended element would become part of the quoted text.
fn is_open(headers: &HeaderMap) -> bool {
    let bytes = headers.get_all(FORWARDED).iter();
    let quotes = bytes
        .flat_map(HeaderValue::as_bytes)
        .filter(|byte| **byte == b'"');
    quotes.count() % 2 == 1
}

/// Sets the header that `forward_client` names to the client's name. Removes this header if the client itself sent it.
fn tell_client(headers: &mut HeaderMap, origin: &Origin<'_>) {
    let Some(name) = &origin.clients.forward_client else {
        return;
    };
    headers.remove(name);
    // A name with characters that are invalid in headers is left out, because a changed name would be wrong.
    let client = origin
        .client
        .map(|client| HeaderValue::try_from(client.to_string()));
    if let Some(Ok(client)) = client {
        headers.insert(name, client);
    }
}

/// Appends an element to a header whose value is a list. Joins several headers of this name into one.
fn append(headers: &mut HeaderMap, name: HeaderName, element: &HeaderValue) {
    let mut line = match headers.entry(name) {
        Entry::Vacant(none) => {
            none.insert(element.clone());
            return;
        }
        Entry::Occupied(line) => line,
    };
    let elements = line.iter().chain([element]);
    let elements: Vec<&[u8]> = elements.map(HeaderValue::as_bytes).collect();
    // Joining valid values makes a valid value.
    if let Ok(elements) = HeaderValue::from_bytes(&elements.join(&b", "[..])) {
        line.insert(elements);
    }
}
