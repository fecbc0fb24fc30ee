//! Values of the network: addresses, hosts, headers, URLs.

use std::net::{IpAddr, SocketAddr};

use http::uri::{Authority, Scheme};
use http::{HeaderName, HeaderValue, Uri};
use ipnet::{IpNet, Ipv4Net};
use tidegate_net::host::{HostPattern, host_of};

use crate::values::value::number::bounded;
use crate::values::value::word::name;
use crate::values::value::{Fault, Value};

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
        // A `*` alone is allowed, because some lists use it for all headers.
        if text.contains('*') && text != "*" {
            return Err(Fault::Because("`*` is no wildcard here: name each header"));
        }
        text.parse().map_err(|_| Fault::Form)
    }
}

impl Value for HostPattern {
    const NAME: &'static str = "Host";
    const WHAT: &'static str = "a host";
    const ALLOWED: &'static str = "api.example.com, *.example.com or an address, without a port";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::parse(text).map_err(|_| no_host(text))
    }
}

/// Returns the reason why a text with a host is refused: its form, or letters outside ASCII. Clients send hosts in ASCII only (RFC 5891).
pub(crate) fn no_host(text: &str) -> Fault {
    match text.is_ascii() {
        true => Fault::Form,
        false if text.starts_with(['“', '”', '„', '‘', '’', '«']) => {
            Fault::Because("the quotation marks of YAML are \" and ': others belong to the value")
        }
        false => Fault::Because(
            "letters outside ASCII are not allowed: write a host as browsers send it, such as xn--bcher-kva.example for bücher.example",
        ),
    }
}

name!(
    /// The name of a parameter of a query, without escapes.
    pub(crate) ParameterName,
    "the name of a parameter",
    "1 to 128 characters, without control characters",
    |c| !c.is_control()
);

/// The value of a parameter of a query, without escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParameterText(pub(crate) String);

impl Value for ParameterText {
    const NAME: &'static str = "ParameterText";
    const WHAT: &'static str = "the value of a parameter";
    const ALLOWED: &'static str = "text of one line";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let is_line = !text.contains(char::is_control);
        is_line.then(|| Self(text.to_owned())).ok_or(Fault::Form)
    }
}

/// The host in requests to an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum UpstreamHost {
    /// The client's host.
    #[default]
    Keep,
    /// The host of the server's URL.
    Upstream,
    /// This host.
    Fixed(HeaderValue),
}

impl Value for UpstreamHost {
    const NAME: &'static str = "UpstreamHost";
    const WHAT: &'static str = "a host for the upstream";
    const ALLOWED: &'static str =
        "keep, upstream (that of the server's URL), or a host such as api.internal";

    fn read(text: &str) -> Result<Self, Fault> {
        match text {
            "keep" => Ok(Self::Keep),
            "upstream" => Ok(Self::Upstream),
            host => host_value(host).map(Self::Fixed),
        }
    }
}

/// Reads a host, perhaps with a port, as the value of a header.
///
/// # Errors
///
/// The text is no host to which the gateway can connect.
pub(crate) fn host_value(text: &str) -> Result<HeaderValue, Fault> {
    let authority = text.parse::<Authority>().ok().filter(can_be_dialled);
    let authority = authority.ok_or_else(|| no_host(text))?;
    HeaderValue::from_str(authority.as_str()).map_err(|_| Fault::Form)
}

/// Whether the gateway can connect to a host. If the text has a port, the port must be valid.
pub(crate) fn can_be_dialled(authority: &Authority) -> bool {
    // `http://host:` has a colon without a port, and the port of `http://host:99999` is too large. `port_u16` returns `None` for both.
    let has_port = authority.as_str().rfind(':') > authority.as_str().rfind(']');
    let port = authority.port_u16();
    let good_port = !has_port || port.is_some_and(|port| port > 0);
    good_port && host_of(authority.as_str()).is_some()
}

/// Reads a URL that the gateway itself calls by HTTP or HTTPS. A URL with a user is refused with the message `user`.
///
/// # Errors
///
/// The text is no HTTP or HTTPS URL, or the URL contains a user.
pub(crate) fn http_url(text: &str, user: &'static str) -> Result<Uri, Fault> {
    let uri: Uri = text.parse().map_err(|_| no_host(text))?;
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

/// A network, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network(pub(crate) IpNet);

impl Value for Network {
    const NAME: &'static str = "Network";
    const WHAT: &'static str = "a network";
    const ALLOWED: &'static str = "an IP address, or a network such as 10.0.0.0/8 or fd00::/8";

    fn read(text: &str) -> Result<Self, Fault> {
        let network = ipv4(network(text).ok_or_else(|| no_network(text))?);
        if network.trunc() != network {
            // 10.1.2.3/8 is refused, because it may mean the address 10.1.2.3 or the network 10.0.0.0/8.
            let (all, one) = (network.trunc(), network.addr());
            return Err(Fault::Quoting(format!(
                "this may mean the network {all} or the address {one}: write one of them"
            )));
        }
        Ok(Self(network))
    }
}

/// Reads a network, or an address as a network with this single address. Numbers with a leading zero are refused, because they may be
/// octal.
fn network(text: &str) -> Option<IpNet> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let is_number = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
    match bits {
        Some(bits) => IpNet::new(address, Some(bits).filter(is_number)?.parse().ok()?).ok(),
        None => Some(address.into()),
    }
}

/// Returns the reason why a text is not a network.
fn no_network(text: &str) -> Fault {
    let mut numbers = text.split(['.', '/']);
    let is_octal = |number: &str| number.len() > 1 && number.starts_with('0');
    match !text.contains(':') && numbers.any(is_octal) {
        true => Fault::Because(
            "the numbers of an address have no leading zeros, which some programs read as octal",
        ),
        false => Fault::Form,
    }
}

/// Converts an IPv4 network in IPv6 notation (`::ffff:10.0.0.0/104`) to IPv4, because addresses of IPv4 peers are compared as IPv4.
fn ipv4(network: IpNet) -> IpNet {
    /// The number of bits before the IPv4 address.
    const BEFORE: u8 = 96;
    let IpNet::V6(mapped) = network else {
        return network;
    };
    let bits = mapped.prefix_len().checked_sub(BEFORE);
    let address = mapped.addr().to_ipv4_mapped();
    let folded = address
        .zip(bits)
        .and_then(|(address, bits)| Ipv4Net::new(address, bits).ok());
    folded.map_or(network, IpNet::V4)
}

bounded!(
    /// The length of the IPv6 prefix that counts as one client, in bits.
    PrefixLength(u8),
    1..=128,
    "a prefix length",
    "a whole number of bits from 1 to 128"
);
