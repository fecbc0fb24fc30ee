//! The plan of what a route changes in requests and answers on their way.

use http::{HeaderName, HeaderValue};

use crate::value::{HttpsPort, UpstreamHost};

/// What a route changes.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct RouteEdits {
    /// In the headers that the upstream gets.
    pub request_headers: HeaderEdits,
    /// In the headers of the upstream's answer.
    pub response_headers: HeaderEdits,
    /// How many segments of the path the upstream does not get.
    pub stripped: usize,
    /// The host that the upstream gets.
    pub upstream_host: UpstreamHost,
    /// Whether requests without TLS are sent there; none: they are served.
    pub redirect: Option<HttpsPort>,
}

/// Headers that are set and removed.
#[derive(Debug, Default)]
pub struct HeaderEdits {
    /// In place of whatever was there.
    pub set: Vec<(HeaderName, HeaderValue)>,
    /// All of that name.
    pub remove: Vec<HeaderName>,
}
