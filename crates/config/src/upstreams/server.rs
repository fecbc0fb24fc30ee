//! The URLs of servers.

use std::collections::HashSet;
use std::net::IpAddr;

use crate::yaml::{Place, Problem};
use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use tidegate_upstream::{ServerSettings, Speaks};

use crate::check::Check;
use crate::value::net::{can_be_dialled, no_host};
use crate::value::{Fault, Value};

/// The protocol of a server, by the scheme of its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerScheme {
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS.
    H2c,
    /// HTTP/2 or HTTP/1.1 over TLS. The server chooses the version.
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
        if text.contains([' ', ',']) {
            return Err(Fault::Because(
                "a URL has no blanks and no commas: several servers, and their weights, are an entry under `upstreams`",
            ));
        }
        let uri: Uri = text.parse().map_err(|_| no_host(text))?;
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

/// Warns of servers that a group lists twice.
pub(crate) fn listed_twice<'s>(
    check: &mut Check<'_>,
    servers: impl Iterator<Item = (&'s Server, Option<Place>)>,
) {
    let mut seen = HashSet::new();
    for (server, place) in servers {
        if !seen.insert((server.scheme as u8, &server.authority)) {
            let problem = Problem::new(place, "this server is here twice");
            check.warn(
                problem.note("for a larger share of the requests write `{ url: …, weight: 2 }`"),
            );
        }
    }
}

/// Warns of a server whose port is the usual port of another scheme.
pub(crate) fn other_scheme(check: &mut Check<'_>, server: &ServerSettings, place: Option<Place>) {
    let (_, port) = server.endpoint();
    let (scheme, meant) = match (&server.speaks, port) {
        (Speaks::Http1, 443) => ("http", "https"),
        (Speaks::Http2, 443) => ("h2c", "https"),
        (Speaks::Tls(_), 80) => ("https", "http"),
        _ => return,
    };
    let problem = Problem::new(place, format!("`{scheme}` at port {port}"));
    check.warn(problem.note(format!("did you mean {meant}://?")));
}

/// Warns of an https:// server whose host is an address. The server's certificate must contain the address, and few certificates contain
/// addresses.
pub(crate) fn address_in_certificate(check: &mut Check<'_>, server: &Server, place: Option<Place>) {
    let host = server.authority.host().trim_matches(['[', ']']);
    if server.scheme != ServerScheme::Https || host.parse::<IpAddr>().is_err() {
        return;
    }
    let problem = Problem::new(
        place,
        format!("the certificate must have the address {host} itself"),
    );
    check.warn(problem.note(
        "if it has a name, write the name in the URL, or `tls: { server_name: NAME }` under `upstreams`; with the address there, this warning ends",
    ));
}

/// Whether a text is a host with a port, without `http://` before it.
fn is_without_scheme(text: &str) -> bool {
    let authority = text.parse::<Authority>();
    authority.is_ok_and(|authority| {
        authority.port_u16().is_some() && !text.contains('@') && can_be_dialled(&authority)
    })
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// One server.
    Server(Server),
    /// The name of a group in `upstreams`. The code that reads this value does not check whether the group exists.
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

#[cfg(test)]
mod tests;
