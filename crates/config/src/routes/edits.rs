//! The edits of a route: `request_headers`, `response_headers`, `strip_prefix`, `upstream_host`, `redirect`.
//!
//! This file has the form of the keys, their values, their checks, and their settings. Edits cannot change headers on which framing,
//! identity or limits depend.

use std::collections::HashSet;
use std::fmt::{self, Write as _};

use crate::yaml::Problem;
use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_identity::Clients;
use tidegate_net::headers::{is_cors, is_limits, is_ours};
use tidegate_net::pattern::PathPattern;

use crate::check::Check;
use crate::routes::variables::no_variables;
use crate::routes::{Route, RouteDefaults};
use crate::shape::Named;
use crate::value::header::HeaderText;
use crate::value::number::pattern;
use crate::value::{Fault, Scalar, Value};

pub use crate::value::net::UpstreamHost;

/// Headers that are set and removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HeaderEdits")]
pub(crate) struct WrittenHeaderEdits {
    /// The headers to set, by name. They replace headers of the same name.
    pub(crate) set: Option<Named<Scalar<HeaderText>>>,
    /// The names of the headers to remove. All headers with such a name are removed.
    pub(crate) remove: Option<Vec<Scalar<HeaderName>>>,
}

/// The HTTPS port to which a redirect sends clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpsPort(pub u16);

impl Value for HttpsPort {
    const NAME: &'static str = "HttpsPort";
    const WHAT: &'static str = "a redirect to TLS";
    const ALLOWED: &'static str = "https, or https:PORT if that is not 443";

    fn read(text: &str) -> Result<Self, Fault> {
        let port = match text.strip_prefix("https") {
            Some("") => Some(443),
            Some(port) => port.strip_prefix(':').and_then(|port| port.parse().ok()),
            None => None,
        };
        port.filter(|port| *port > 0).map(Self).ok_or(Fault::Form)
    }

    fn schema() -> serde_json::Map<String, serde_json::Value> {
        pattern("^https(:[0-9]{1,5})?$")
    }
}

/// Headers that are set and removed.
#[derive(Clone, Debug, Default)]
pub struct HeaderEdits {
    /// The headers that replace all headers of the same name.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// The names of headers that are removed.
    pub remove: Vec<HeaderName>,
}

impl HeaderEdits {
    /// Applies the edits: removes headers, then sets headers.
    pub fn apply(&self, headers: &mut HeaderMap) {
        for name in &self.remove {
            headers.remove(name);
        }
        for (name, value) in &self.set {
            headers.insert(name, value.clone());
        }
    }
}

/// The edits of a route.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RouteEdits {
    /// The edits of the headers of requests to the upstream.
    pub request_headers: HeaderEdits,
    /// The edits of headers of answers.
    pub response_headers: HeaderEdits,
    /// The number of segments that are removed from the beginning of the path, before the request goes to the upstream.
    pub stripped: usize,
    /// The host in requests to the upstream.
    pub upstream_host: UpstreamHost,
    /// The HTTPS port to which requests without TLS are redirected. `None` if requests without TLS are forwarded.
    pub redirect: Option<HttpsPort>,
}

impl RouteEdits {
    /// Writes one line for each edit.
    pub(crate) fn explain(&self, text: &mut String) -> fmt::Result {
        match self.redirect {
            Some(HttpsPort(443)) => writeln!(text, "redirect: to https, without TLS")?,
            Some(HttpsPort(port)) => {
                writeln!(text, "redirect: to https at port {port}, without TLS")?
            }
            None => {}
        }
        match self.stripped {
            0 => {}
            1 => writeln!(text, "path:     without its first segment")?,
            count => writeln!(text, "path:     without its first {count} segments")?,
        }
        match &self.upstream_host {
            UpstreamHost::Keep => {}
            UpstreamHost::Upstream => writeln!(text, "host:     the server's own")?,
            UpstreamHost::Fixed(host) => {
                let host = String::from_utf8_lossy(host.as_bytes());
                writeln!(text, "host:     {host}")?;
            }
        }
        explain(&self.request_headers, "request: ", text)?;
        explain(&self.response_headers, "response:", text)
    }
}

/// Writes the names of edited headers. Leaves out their values, which may be secrets.
fn explain(edits: &HeaderEdits, label: &str, text: &mut String) -> fmt::Result {
    let set = edits.set.iter().map(|(name, _)| name.as_str()).collect();
    let removed = edits.remove.iter().map(HeaderName::as_str).collect();
    for (what, names) in [("sets", set), ("removes", removed)] {
        let names: Vec<&str> = names;
        if !names.is_empty() {
            writeln!(text, "{label} {what} {}", names.join(", "))?;
        }
    }
    Ok(())
}

/// The direction of headers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToUpstream,
    /// With `has_cors`, the key `cors` sets the CORS headers of answers, so edits of CORS headers are refused.
    ToClient {
        has_cors: bool,
    },
}

/// Reads the edits of a route with this path.
pub(crate) fn edits(
    check: &mut Check<'_>,
    route: &Route,
    path: Option<&PathPattern>,
    defaults: &RouteDefaults<'_>,
) -> RouteEdits {
    let (clients, of_file) = (defaults.clients, defaults.response_headers);
    let redirect = route.redirect.as_ref();
    let upstream_host = check.read_some(route.upstream_host.as_ref());
    if let Some(scalar) = redirect.filter(|_| !defaults.has_https) {
        let problem = Problem::new(scalar.place, "no request counts as https here");
        check.warn(problem.note(
            "no listener has TLS and `trusted_proxies` lists none, so that each request gets 308: give the listener `tls`, \
             or list the proxy that has TLS",
        ));
    }
    let request = route.request_headers.as_ref();
    let has_cors = route.cors.is_some();
    RouteEdits {
        request_headers: header_edits(check, request, Way::ToUpstream, clients),
        response_headers: match &route.response_headers {
            Some(response) => {
                let way = Way::ToClient { has_cors };
                let edits = header_edits(check, Some(response), way, clients);
                replaced(check, response, of_file, &edits);
                edits
            }
            None => of_file.clone(),
        },
        stripped: stripped(check, route.strip_prefix.as_ref(), path),
        upstream_host: upstream_host.unwrap_or_default(),
        redirect: check.read_some(redirect),
    }
}

/// Warns if the route's own edits lack a header that the file sets on answers. The route's edits replace the file's, so answers of this
/// route do not get the header.
fn replaced(
    check: &mut Check<'_>,
    written: &WrittenHeaderEdits,
    of_file: &HeaderEdits,
    own: &HeaderEdits,
) {
    let is_own =
        |name: &HeaderName| own.remove.contains(name) || own.set.iter().any(|(set, _)| set == name);
    let names = of_file.set.iter().map(|(name, _)| name);
    let names: Vec<_> = names
        .filter(|name| !is_own(name))
        .map(HeaderName::as_str)
        .collect();
    if !names.is_empty() {
        let message = format!("answers of this route do not get `{}`", names.join("`, `"));
        let set = written.set.iter().flat_map(|set| &set.0);
        let set = set.map(|(name, _)| name.place);
        let removed = written.remove.iter().flatten().map(|name| name.place);
        let place = set.chain(removed).next().flatten();
        check.warn(Problem::new(place, message).note(
            "these `response_headers` replace those of the file: set it here, too, or list it under `remove` here if that is meant",
        ));
    }
}

/// Returns the number of segments in `strip_prefix`. Refuses the prefix unless every path of the route begins with it.
fn stripped(
    check: &mut Check<'_>,
    scalar: Option<&Scalar<PathPattern>>,
    path: Option<&PathPattern>,
) -> usize {
    let Some((scalar, path)) = scalar.zip(path) else {
        return 0;
    };
    let Some(prefix) = check.read(scalar) else {
        return 0;
    };
    let prefix = match path.ignores_case() {
        true => prefix.ignoring_case(),
        false => prefix,
    };
    let stripped = prefix.begins(path);
    if stripped.is_none() {
        let message = format!("not every path of this route begins with `{}`", scalar.raw);
        let note = format!("its path is {path}; a prefix is whole segments, without /**");
        check.refuse(Problem::new(scalar.place, message).note(note));
    }
    stripped.unwrap_or_default()
}

/// Reads the edits of headers in this direction.
pub(crate) fn header_edits(
    check: &mut Check<'_>,
    written: Option<&WrittenHeaderEdits>,
    way: Way,
    clients: &Clients,
) -> HeaderEdits {
    let mut edits = HeaderEdits::default();
    let mut seen = HashSet::new();
    let sets = written.and_then(|written| written.set.as_ref());
    for (name, value) in sets.iter().flat_map(|sets| &sets.0) {
        let name = Scalar::new(name.raw.clone(), name.place);
        let (value, place) = (check.read_hidden(value), value.place);
        if let Some(name) = header_name(check, &name, way, clients, &mut seen)
            && let Some(HeaderText(value)) = value
        {
            no_variables(check, value.as_bytes(), place);
            edits.set.push((name, value));
        }
    }
    let removes = written.and_then(|written| written.remove.as_ref());
    for name in removes.into_iter().flatten() {
        edits
            .remove
            .extend(header_name(check, name, way, clients, &mut seen));
    }
    edits
}

fn header_name(
    check: &mut Check<'_>,
    scalar: &Scalar<HeaderName>,
    way: Way,
    clients: &Clients,
    seen: &mut HashSet<HeaderName>,
) -> Option<HeaderName> {
    let name = check.read(scalar)?;
    let vouched: Vec<_> = clients.vouched_headers().cloned().collect();
    let note = match way {
        _ if name.as_str() == "*" => "`*` is no wildcard here: name each header",
        _ if is_ours(&name, &vouched) => {
            "it belongs to the connection, or says where a request or a client comes from; \
             the host is changed by `upstream_host`"
        }
        Way::ToClient { .. } if is_limits(&name) => {
            "it reports limits; the key `headers` controls it"
        }
        Way::ToClient { has_cors: true } if is_cors(&name) => "the route's `cors` says it",
        _ if !seen.insert(name.clone()) => "it is here twice",
        _ => return Some(name),
    };
    // The value in the same line may be a secret, so the error does not show the line.
    let message = format!("the header `{name}` cannot be changed here");
    let problem = Problem::new(scalar.place, message).note(note);
    check.refuse(problem.without_line());
    None
}
