//! `upgrade`: the protocols that clients may switch to.

use crate::yaml::Problem;
use http::HeaderName;
use tidegate_upstream::{ServerSettings, Speaks};

use crate::check::Check;
use crate::value::{Fault, Scalar, Value};

/// A protocol that a request may switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protocol(pub(crate) String);

impl Value for Protocol {
    const NAME: &'static str = "Protocol";
    const WHAT: &'static str = "a protocol to switch to";
    const ALLOWED: &'static str = "websocket, or another value of an Upgrade header";

    fn read(text: &str) -> Result<Self, Fault> {
        // The text is a name, perhaps with a version after a `/`.
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

/// Reads the protocols that requests may switch to. Refuses the first protocol if a server has an h2c:// URL, because requests cannot
/// switch protocols in HTTP/2.
pub(crate) fn upgrades(
    check: &mut Check<'_>,
    written: Option<&[Scalar<Protocol>]>,
    servers: &[ServerSettings],
) -> Box<[Box<str>]> {
    let scalars = written.unwrap_or_default();
    let http2 = servers
        .iter()
        .find(|server| matches!(server.speaks, Speaks::Http2));
    if let (Some(scalar), Some(server)) = (scalars.first(), http2) {
        let message = format!("{server} speaks HTTP/2, in which no request switches protocols");
        let problem = Problem::new(scalar.place, message);
        check.refuse(problem.note("a server at http:// or https:// can"));
    }
    let read = scalars.iter().filter_map(|scalar| check.read(scalar));
    read.map(|Protocol(name)| name.into()).collect()
}

#[cfg(test)]
mod tests;
