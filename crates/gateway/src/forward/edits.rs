//! What a route changes on the way, as it is done.

use http::header::{HOST, LOCATION};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};

use crate::body::Body;
use tidegate_config::routes::HttpsPort;

/// The path without its first `count` segments, in any spelling of them. The query is kept.
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

/// Sends a client to the same place over TLS, with the same method and body; none if it names no host.
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
