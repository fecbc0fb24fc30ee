//! Values of the network: addresses, hosts, headers, URLs.

use std::net::SocketAddr;

use http::uri::{Authority, Scheme};
use http::{HeaderName, Uri};
use tidegate_net::host::{HostPattern, host_of};

use crate::value::{Fault, Value};

impl Value for SocketAddr {
    const NAME: &'static str = "Address";
    const WHAT: &'static str = "an address to listen on";
    const ALLOWED: &'static str = "an IP address and a port, such as 127.0.0.1:8080 or 0.0.0.0:80; IPv6 in brackets and quotes: \"[::]:8080\"";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|_| Fault::Form)
    }
}

impl Value for HeaderName {
    const NAME: &'static str = "HeaderName";
    const WHAT: &'static str = "the name of a header";
    const ALLOWED: &'static str = "letters, digits and `-`, such as X-API-Key";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|_| Fault::Form)
    }
}

impl Value for HostPattern {
    const NAME: &'static str = "Host";
    const WHAT: &'static str = "a host";
    const ALLOWED: &'static str = "api.example.com, *.example.com or an address, without a port";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::parse(text).map_err(|_| Fault::Form)
    }
}

/// Whether this is a host with a port that can be, or with none.
pub(crate) fn can_be_dialled(authority: &Authority) -> bool {
    // The port of `http://host:` is none, and of `http://host:99999` no number.
    let has_port = authority.as_str().rfind(':') > authority.as_str().rfind(']');
    let port = authority.port_u16();
    let good_port = !has_port || port.is_some_and(|port| port > 0);
    good_port && host_of(authority.as_str()).is_some()
}

/// A URL that the gateway itself calls by HTTP or HTTPS; `user` is the reason for which one with a user is refused.
pub(crate) fn http_url(text: &str, user: &'static str) -> Result<Uri, Fault> {
    let uri: Uri = text.parse().map_err(|_| Fault::Form)?;
    let schemes = [Scheme::HTTP, Scheme::HTTPS];
    let has_scheme = uri.scheme().is_some_and(|scheme| schemes.contains(scheme));
    let authority = uri.authority().ok_or(Fault::Form)?;
    if authority.as_str().contains('@') {
        return Err(Fault::Because(user));
    }
    if !has_scheme || !can_be_dialled(authority) {
        return Err(Fault::Form);
    }
    Ok(uri)
}
