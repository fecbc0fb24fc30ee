//! Makes the request that a line of a log describes.

use std::net::IpAddr;

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use tidegate_logs::{Entry, Field};

/// A stand-in for a host that the log lacks. No configuration has this host.
const NO_HOST: HeaderValue = HeaderValue::from_static("host.invalid");

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Facts that the command line gives for all requests, because the logs lack them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// The host of all requests (`--host`).
    pub(crate) host: Option<HeaderValue>,
    /// The address of the peer of all requests (`--peer`).
    pub(crate) peer: Option<IpAddr>,
}

/// Returns the request of a line. `None` if the line is no request, or if an HTTP server would reject it. Such a line has no route.
pub(crate) fn request(entry: &Entry<'_>, given: &Given) -> Option<Request<()>> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(&entry.method()?.bytes()).ok()?;
    let path = entry.path()?.bytes();
    let target = match entry.query() {
        None => PathAndQuery::try_from(&*path),
        Some(query) => {
            let mut target = path.into_owned();
            target.push(b'?');
            target.extend_from_slice(&query.bytes());
            PathAndQuery::try_from(target)
        }
    };
    let target = target.ok().filter(|it| it.path().starts_with('/'))?;
    *request.uri_mut() = Uri::from(target);
    let headers = request.headers_mut();
    let value = |field| HeaderValue::from_bytes(&entry.text(field)?.bytes()).ok();
    let host = match entry.fields().has(Field::Host) {
        // If the log has hosts and this line has none, the request had no host.
        true => entry.host().map(|_| value(Field::Host)).unwrap_or_default(),
        false => Some(given.host.clone().unwrap_or(NO_HOST)),
    };
    if let Some(host) = host {
        headers.insert(HOST, host);
    }
    if let Some(hops) = value(Field::ForwardedFor) {
        headers.insert(X_FORWARDED_FOR, hops);
    }
    for (name, text) in entry.headers() {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(&text.bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    Some(request)
}

/// Returns a stand-in for the request of a line that has no valid method or path.
pub(crate) fn unparsed() -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(b"-").unwrap_or_default();
    request
}
