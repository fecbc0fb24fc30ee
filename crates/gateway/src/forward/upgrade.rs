//! Switches of protocols, for example to WebSocket: the client's request, and the upstream's consent.
//!
//! The gateway sends its own request to the upstream, and tunnels no bytes until the upstream has agreed to the client's protocol. HTTP/2
//! has no switch of protocols, and extended CONNECT (RFC 8441) is not supported.

use http::header::{CONNECTION, TE, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Version};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;

use tidegate_net::headers::tokens;
use tidegate_server::ClientBody;

/// A switch of protocols that a client requests.
#[derive(Debug)]
pub(super) struct Upgrade {
    protocol: HeaderValue,
    /// The client's connection, which becomes available when the upstream has agreed.
    pub(super) client: OnUpgrade,
}

impl Upgrade {
    /// Returns the switch that a request contains, if its protocol is in `allowed`. The names in `allowed` are in lower case.
    pub(super) fn of(request: &mut Request<ClientBody>, allowed: &[Box<str>]) -> Option<Self> {
        if allowed.is_empty() || request.version() != Version::HTTP_11 {
            return None;
        }
        let protocol = protocol_in(request.headers())?.clone();
        let is_allowed = allowed.iter().any(|name| {
            let protocol = protocol.as_bytes();
            protocol.eq_ignore_ascii_case(name.as_bytes())
        });
        // A request with a body would be ambiguous: the body's bytes could also be the first bytes of the tunnel.
        (is_allowed && request.body().is_end_stream()).then(|| Self {
            protocol,
            client: hyper::upgrade::on(request),
        })
    }

    /// Whether the headers of an upstream's answer switch to the protocol that the client requested.
    pub(super) fn is_granted(&self, headers: &HeaderMap) -> bool {
        let granted = protocol_in(headers).map(HeaderValue::as_bytes);
        granted.is_some_and(|granted| granted.eq_ignore_ascii_case(self.protocol.as_bytes()))
    }

    /// Writes the switch into the headers of a request or an answer.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.remove(TE);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }
}

/// Returns the requested protocol, if the headers name exactly one.
fn protocol_in(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut values = headers.get_all(UPGRADE).iter();
    let (first, second) = (values.next(), values.next());
    let meant = tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    first.filter(|_| meant && second.is_none())
}
