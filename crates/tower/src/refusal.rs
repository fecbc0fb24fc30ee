//! What a client is told when a request does not go on.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Map, Value};
use tidegate_core::{Micros, Verdict};
use tidegate_store::Limit;

use crate::{Credentials, Reject, Rule};

/// The answer to a request that does not go on: problem details (RFC 9457) with a short `error` for programs and a
/// `detail` for people. Never cached.
pub fn problem(status: StatusCode, error: &str, detail: &str) -> Response<Bytes> {
    respond(status, "about:blank", error, detail, Map::new())
}

/// 429, or what `reject` makes of it: a limit was exceeded.
pub(crate) fn too_many<'a>(
    refused: impl Iterator<Item = (&'a Rule, &'a Verdict)> + Clone,
    reject: &Reject,
) -> Response<Bytes> {
    let longest = refused.clone().map(|(_, verdict)| verdict.retry_after);
    let seconds = whole_seconds(longest.max().unwrap_or_default());
    let names: Vec<Value> = refused.map(|(rule, _)| rule.limit.name().into()).collect();
    let mut members = Map::new();
    members.insert("retry_after".into(), seconds.into());
    members.insert("violated-policies".into(), names.into());
    let mut response = match &reject.body {
        Some((kind, body)) => answer(reject.status, kind.clone(), body.clone()),
        None => respond(
            reject.status,
            "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "rate_limit_exceeded",
            &format!("Too many requests; the next one is admitted in {seconds} s."),
            members,
        ),
    };
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

/// 400: what the request costs is more than a limit ever admits, so there is no time at which to come back.
pub(crate) fn too_costly(limit: &Limit, cost: u64) -> Response<Bytes> {
    let (name, capacity) = (limit.name(), limit.quota().capacity());
    let mut members = Map::new();
    members.insert("violated-policies".into(), vec![name].into());
    respond(
        StatusCode::BAD_REQUEST,
        "about:blank",
        "cost_exceeds_limit",
        &format!(
            "This request costs {cost}, and the limit {name} never admits more than {capacity}."
        ),
        members,
    )
}

/// 401: the credentials that were sent are not valid.
pub(crate) fn unauthorized(credentials: Credentials) -> Response<Bytes> {
    let (error, detail, challenge) = match credentials {
        Credentials::ApiKey => (
            "invalid_api_key",
            "The API key is not known.",
            "ApiKey realm=\"tidegate\"",
        ),
        Credentials::Token => (
            "invalid_token",
            "The token is not valid.",
            "Bearer realm=\"tidegate\", error=\"invalid_token\"",
        ),
    };
    let mut response = problem(StatusCode::UNAUTHORIZED, error, detail);
    let challenge = HeaderValue::from_static(challenge);
    response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    response
}

/// 503: a limit that stays closed without a store has none at the moment.
pub(crate) fn no_store() -> Response<Bytes> {
    let mut response = respond(
        StatusCode::SERVICE_UNAVAILABLE,
        "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "limits_unavailable",
        "The store that keeps the limits does not answer at the moment; this is no fault of the request.",
        Map::new(),
    );
    response.headers_mut().insert(RETRY_AFTER, 1.into());
    response
}

fn respond(
    status: StatusCode,
    kind: &str,
    error: &str,
    detail: &str,
    mut members: Map<String, Value>,
) -> Response<Bytes> {
    members.insert("type".into(), kind.into());
    let title = status.canonical_reason().unwrap_or("Refused");
    members.insert("title".into(), title.into());
    members.insert("status".into(), status.as_u16().into());
    members.insert("detail".into(), detail.into());
    members.insert("error".into(), error.into());
    let kind = HeaderValue::from_static("application/problem+json");
    answer(status, kind, Value::Object(members).to_string().into())
}

fn answer(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Rounded up, and never 0: a client that comes back at once would only be refused again.
pub(crate) fn whole_seconds(micros: Micros) -> u64 {
    micros.div_ceil(1_000_000).max(1)
}

#[cfg(test)]
mod tests;
