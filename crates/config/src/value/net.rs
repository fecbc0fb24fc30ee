//! Values of the network: addresses, networks, headers, methods, URLs, and what routes match.

use std::net::{IpAddr, SocketAddr};

use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderName, Method};
use ipnet::IpNet;
use rustls::pki_types::ServerName;
use tidegate_store::redis;

use tidegate_net::host::{HostPattern, host_of};
use tidegate_net::pattern::PathPattern;

use super::{Fault, Value};

impl Value for SocketAddr {
    const NAME: &'static str = "Address";
    const WHAT: &'static str = "an address to listen on";
    const ALLOWED: &'static str = "an IP address and a port, such as 127.0.0.1:8080 or 0.0.0.0:80; IPv6 in brackets and quotes: \"[::]:8080\"";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|_| Fault::Form)
    }
}

/// The addresses of trusted proxies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network(pub(crate) IpNet);

impl Value for Network {
    const NAME: &'static str = "Network";
    const WHAT: &'static str = "a network";
    const ALLOWED: &'static str = "an IP address, or a network such as 10.0.0.0/8 or fd00::/8";

    fn read(text: &str) -> Result<Self, Fault> {
        let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
        let network: IpNet = text.parse().ok().or_else(address).ok_or(Fault::Form)?;
        if network.trunc() != network {
            // 10.1.2.3/8 is as likely to mean one address as to mean all of 10.
            let (all, one) = (network.trunc(), network.addr());
            return Err(Fault::Quoting(format!(
                "this may mean the network {all} or the address {one}: write one of them"
            )));
        }
        Ok(Self(network))
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

impl Value for Method {
    const NAME: &'static str = "Method";
    const WHAT: &'static str = "a method";
    const ALLOWED: &'static str = "a method in capitals, such as GET, POST or PURGE; not CONNECT";

    fn read(text: &str) -> Result<Self, Fault> {
        let in_capitals = text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        let method = text.parse().map_err(|_| Fault::Form)?;
        if !in_capitals || method == Self::CONNECT {
            return Err(Fault::Form);
        }
        Ok(method)
    }
}

impl Value for PathPattern {
    const NAME: &'static str = "Path";
    const WHAT: &'static str = "a path";
    const ALLOWED: &'static str =
        "a path such as /api/rides/{id}; {name} is one segment, /** at the end is any rest";

    fn read(text: &str) -> Result<Self, Fault> {
        Self::parse(text).map_err(|error| Fault::Quoting(error.to_string()))
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

/// What is spoken to a server, as its URL says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerScheme {
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS.
    H2c,
    /// HTTP/2 or HTTP/1.1, as the server prefers, over TLS.
    Https,
}

/// A server that requests are forwarded to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) scheme: ServerScheme,
    pub(crate) authority: Authority,
}

impl Value for Server {
    const NAME: &'static str = "Server";
    const WHAT: &'static str = "the URL of a server";
    const ALLOWED: &'static str = "http://host:port, https://host:port or h2c://host:port (HTTP/2 without TLS), without a path";

    fn read(text: &str) -> Result<Self, Fault> {
        if is_without_scheme(text) {
            return Err(Fault::Quoting(format!(
                "`{text}` has no scheme: write http://{text}"
            )));
        }
        let uri: Uri = text.parse().map_err(|_| Fault::Form)?;
        let parts = uri.into_parts();
        let scheme = match parts.scheme.as_ref().map(Scheme::as_str) {
            Some("http") => ServerScheme::Http,
            Some("h2c") => ServerScheme::H2c,
            Some("https") => ServerScheme::Https,
            _ => return Err(Fault::Form),
        };
        let authority = parts.authority.ok_or(Fault::Form)?;
        if authority.as_str().contains('@') {
            return Err(Fault::Because("a server's URL holds no user and password"));
        }
        if !can_be_dialled(&authority) {
            return Err(Fault::Form);
        }
        match parts.path_and_query.as_ref().map(PathAndQuery::as_str) {
            None | Some("/") => Ok(Self { scheme, authority }),
            Some(_) => Err(Fault::Because(
                "a server's URL has no path: requests keep theirs",
            )),
        }
    }
}

/// Whether this is a host with a port, and `http://` was forgotten.
fn is_without_scheme(text: &str) -> bool {
    let authority = text.parse::<Authority>();
    authority.is_ok_and(|authority| {
        authority.port_u16().is_some() && !text.contains('@') && can_be_dialled(&authority)
    })
}

/// The name that a server's certificate must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CertificateName(pub(crate) ServerName<'static>);

impl Value for CertificateName {
    const NAME: &'static str = "CertificateName";
    const WHAT: &'static str = "the name of a server";
    const ALLOWED: &'static str = "a host such as api.internal, or an address, without a port";

    fn read(text: &str) -> Result<Self, Fault> {
        let name = ServerName::try_from(text.to_owned());
        name.map(Self).map_err(|_| Fault::Form)
    }
}

/// A protocol that a request may switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protocol(pub(crate) String);

impl Value for Protocol {
    const NAME: &'static str = "Protocol";
    const WHAT: &'static str = "a protocol to switch to";
    const ALLOWED: &'static str = "websocket, or another value of an Upgrade header";

    fn read(text: &str) -> Result<Self, Fault> {
        // A name, and perhaps a version.
        let mut parts = text.splitn(2, '/');
        if !parts.all(|part| HeaderName::read(part).is_ok()) {
            return Err(Fault::Form);
        }
        let name = text.to_ascii_lowercase();
        if name == "h2c" {
            return Err(Fault::Because(
                "HTTP/2 needs no upgrade: the gateway accepts it from every client",
            ));
        }
        Ok(Self(name))
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
pub(super) fn http_url(text: &str, user: &'static str) -> Result<Uri, Fault> {
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

/// Where a JWK set is published. Its query may hold a key of its own.
pub(crate) struct JwksUrl(pub(crate) Uri);

impl Value for JwksUrl {
    const NAME: &'static str = "JwksUrl";
    const WHAT: &'static str = "the URL of a key set";
    const ALLOWED: &'static str = "https://host[:port]/path, or the same with http://";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        if !text.contains("://") {
            return Err(Fault::Because(
                "the URL of a key set begins with https:// or http://",
            ));
        }
        http_url(text, "the URL of a key set holds no user and password").map(Self)
    }
}

/// Where a route's requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// One server.
    Server(Server),
    /// An entry of `upstreams`, if there is one of this name.
    Named(String),
}

impl Value for Target {
    const NAME: &'static str = "Target";
    const WHAT: &'static str = "an upstream";
    const ALLOWED: &'static str = "http://host:port, https://host:port or h2c://host:port (HTTP/2 without TLS), or the name of an entry under upstreams";

    fn read(text: &str) -> Result<Self, Fault> {
        if text.contains(['/', ':', '@']) {
            return Server::read(text).map(Self::Server);
        }
        Ok(Self::Named(text.to_owned()))
    }
}

/// A Redis URL, which may hold a password.
pub(crate) struct RedisUrl(pub(crate) String);

impl Value for RedisUrl {
    const NAME: &'static str = "RedisUrl";
    const WHAT: &'static str = "a Redis URL";
    const ALLOWED: &'static str = "redis://[user:password@]host:port[/database], or rediss://, redis-cluster://, redis-sentinel:// or unix://";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let Err(error) = redis::check_url(text) else {
            return Ok(Self(text.to_owned()));
        };
        Err(match (text.split_once("://"), error.reason()) {
            (None, _) => Fault::Because("this URL has no scheme: write redis:// before the host"),
            (Some((_, rest)), _) if has_bare_sign(rest) => Fault::Because(
                "the user or password in this URL has a sign that must be escaped: \
                 `/` is %2F, `#` is %23, `?` is %3F, `@` is %40, `%` is %25, a space is %20",
            ),
            (_, Some(reason)) => Fault::Because(reason),
            (_, None) => Fault::Form,
        })
    }
}

/// Whether a user or password, which ends at the last `@`, has a sign that ends it too early.
fn has_bare_sign(rest: &str) -> bool {
    let user = rest.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| {
        user.contains(|c: char| matches!(c, '/' | '#' | '?') || c.is_whitespace())
    })
}

/// The hash of an API key. Whoever writes the key itself here should not read it in a log.
pub(crate) struct KeyHash(pub(crate) [u8; 32]);

impl Value for KeyHash {
    const NAME: &'static str = "KeyHash";
    const WHAT: &'static str = "the hash of a key";
    const ALLOWED: &'static str = "sha256: and 64 hexadecimal digits";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let digits = text.strip_prefix("sha256:").ok_or(Fault::Form)?;
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::Form);
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| Fault::Form)?;
        }
        Ok(Self(hash))
    }
}
