//! Edits paths and headers as a route requires, and makes its redirects.

use http::header::{HOST, LOCATION};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri};

use crate::body::Body;
use tidegate_config::routes::HttpsPort;

const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Returns the path and query without the first `count` segments of the path, whatever the names of these segments are.
pub(super) fn without_segments(path: &PathAndQuery, count: usize) -> Option<PathAndQuery> {
    let mut slashes = path.path().match_indices('/').map(|(at, _)| at);
    match slashes.nth(count) {
        Some(at) => path.as_str()[at..].parse().ok(),
        None => match path.query() {
            Some(query) => format!("/?{query}").parse().ok(),
            None => Some(PathAndQuery::from_static("/")),
        },
    }
}

/// Sets `X-Forwarded-Prefix` to the prefix that a trusted proxy sent, followed by the removed segments.
pub(super) fn tell_prefix(headers: &mut HeaderMap, path: &PathAndQuery, count: usize) {
    let path = path.path();
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    let end = slashes.nth(count).unwrap_or(path.len());
    let outer = headers
        .get(X_FORWARDED_PREFIX)
        .and_then(|outer| outer.to_str().ok())
        .unwrap_or_default();
    let prefix = format!("{}{}", outer.trim_end_matches('/'), &path[..end]);
    if let Ok(prefix) = HeaderValue::try_from(prefix) {
        headers.insert(X_FORWARDED_PREFIX, prefix);
    }
}

/// Returns a redirect (308) to the same URL over TLS. The client repeats its request there with the same method and body. `None` if the
/// request names no host.
pub(super) fn to_https(
    headers: &HeaderMap,
    uri: &Uri,
    HttpsPort(port): HttpsPort,
) -> Option<Response<Body>> {
    let host: Authority = headers.get(HOST)?.as_bytes().try_into().ok()?;
    let host = host.host();
    let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let location = match port {
        443 => format!("https://{host}{path}"),
        port => format!("https://{host}:{port}{path}"),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    let location = HeaderValue::try_from(location).ok()?;
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}
