//! `/config`: which configuration is in force, and since when.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use serde::Serialize;

use crate::in_force::InForce;

/// What is told of a configuration; nothing of what stands in it.
#[derive(Debug, Serialize)]
struct Told<'a> {
    /// The same for the same text.
    version: &'a str,
    /// When it was taken, in UTC.
    since: String,
    routes: usize,
}

pub(super) fn answer(in_force: &InForce) -> Response<Bytes> {
    let told = Told {
        version: &in_force.version,
        since: format!("{:.0}", in_force.since),
        routes: in_force.frontend.routes.count(),
    };
    // Strings always become JSON.
    let mut response = Response::new(serde_json::to_vec(&told).unwrap_or_default().into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
