//! A switch of protocols: the client's request, and the upstream's agreement.
//!
//! The gateway sends its own request to the upstream, and tunnels no bytes before the upstream
//! agrees to this protocol. HTTP/2 has no such switch; extended CONNECT (RFC 8441) is not served.

use http::header::{CONNECTION, TE, UPGRADE};
use http::{HeaderMap, HeaderValue, Request, Version};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;

use tidegate_net::headers::tokens;
use tidegate_server::ClientBody;

/// A switch of protocols that a client asks for.
#[derive(Debug)]
pub(super) struct Upgrade {
    protocol: HeaderValue,
    /// The client's connection, once the upstream agrees.
    pub(super) client: OnUpgrade,
}

impl Upgrade {
    /// Returns the upgrade that a request asks for, if it is in `allowed`, which has names in lower case.
    pub(super) fn of(request: &mut Request<ClientBody>, allowed: &[Box<str>]) -> Option<Self> {
        if allowed.is_empty() || request.version() != Version::HTTP_11 {
            return None;
        }
        let protocol = asked(request.headers())?.clone();
        let is_allowed = allowed.iter().any(|name| {
            let protocol = protocol.as_bytes();
            protocol.eq_ignore_ascii_case(name.as_bytes())
        });
        // A body would be ambiguous: the request's, or the first bytes in the tunnel.
        (is_allowed && request.body().is_end_stream()).then(|| Self {
            protocol,
            client: hyper::upgrade::on(request),
        })
    }

    /// Whether an upstream that switches protocols switches to this one.
    pub(super) fn is_granted(&self, headers: &HeaderMap) -> bool {
        let granted = asked(headers).map(HeaderValue::as_bytes);
        granted.is_some_and(|granted| granted.eq_ignore_ascii_case(self.protocol.as_bytes()))
    }

    /// Writes the upgrade into the headers of one connection.
    pub(super) fn write(&self, headers: &mut HeaderMap) {
        headers.remove(TE);
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
    }
}

/// Returns the next protocol, if the headers name exactly one.
fn asked(headers: &HeaderMap) -> Option<&HeaderValue> {
    let mut asked = headers.get_all(UPGRADE).iter();
    let (first, second) = (asked.next(), asked.next());
    let meant = tokens(headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    first.filter(|_| meant && second.is_none())
}
