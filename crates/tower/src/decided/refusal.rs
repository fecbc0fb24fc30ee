//! The answers to requests that are not forwarded.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use tidegate_core::{Micros, Verdict};
use tidegate_store::{Limit, PerCharge};

use super::headers::digits;
use crate::{Reject, Rule};
use tidegate_identity::{Credentials, Required};

/// The bytes that are reserved for the JSON of problem details. Most problem details fit into these bytes without a reallocation. A power of
/// two, because mimalloc 3 allocates other sizes by a slower path.
const USUAL: usize = 512;

/// The number of headers for which a refusal's header map has room, including the rate-limit headers and the request ID. A map with more
/// headers is copied.
const HEADERS: usize = 8;

/// The answer to a request that is not forwarded, with the `error` of its problem details.
pub(crate) struct Refusal {
    pub(crate) response: Response<Bytes>,
    /// `None` for a refusal by a limit.
    pub(crate) error: Option<&'static str>,
}

/// Problem details.
#[derive(Debug)]
struct Problem<'a> {
    kind: &'static str,
    status: StatusCode,
    /// The parts of the detail.
    detail: &'a [&'a str],
    error: &'static str,
    retry_after: Option<u64>,
    violated_policies: &'a [&'a str],
}

pub(crate) fn problem(status: StatusCode, error: &'static str, detail: &str) -> Refusal {
    respond(&Problem::of(status, error, &[detail]))
}

/// Returns the answer to a request over a limit: 429, or the status and the body that `reject` defines.
pub(crate) fn too_many<'a>(
    refused: impl Iterator<Item = (&'a Rule, &'a Verdict)> + Clone,
    reject: &Reject,
) -> Refusal {
    let longest = refused.clone().map(|(_, verdict)| verdict.retry_after);
    let seconds = whole_seconds(longest.max().unwrap_or_default());
    let mut response = match &reject.body {
        Some((kind, body)) => answer(reject.status, kind.clone(), body.clone()),
        None => {
            let names: PerCharge<&str> = refused.map(|(rule, _)| rule.limit.name()).collect();
            let mut number = itoa::Buffer::new();
            let seconds_text = number.format(seconds);
            let detail = [
                "Too many requests; the next one is admitted in ",
                seconds_text,
                " s.",
            ];
            let problem = Problem {
                kind: "https://iana.org/assignments/http-problem-types#quota-exceeded",
                retry_after: Some(seconds),
                violated_policies: &names,
                ..Problem::of(reject.status, "rate_limit_exceeded", &detail)
            };
            respond(&problem).response
        }
    };
    response.headers_mut().insert(RETRY_AFTER, digits(seconds));
    Refusal {
        response,
        error: None,
    }
}

/// Returns 400 for a request that costs more than a limit ever admits. A later retry would not help.
pub(crate) fn too_costly(limit: &Limit, cost: u64) -> Refusal {
    let (name, capacity) = (limit.name(), limit.quota().capacity());
    let detail = format!(
        "This request costs {cost}, and the limit {name} never admits more than {capacity}."
    );
    respond(&Problem {
        violated_policies: &[name],
        ..Problem::of(StatusCode::BAD_REQUEST, "cost_exceeds_limit", &[&detail])
    })
}

/// Returns 401 if the credentials are missing or not valid, or 400 if the request has a header with credentials twice.
pub(crate) fn unauthorized(credentials: Credentials) -> Refusal {
    let (error, detail, challenge) = match credentials {
        Credentials::Ambiguous => {
            let detail = "A header with credentials was sent more than once.";
            let status = StatusCode::BAD_REQUEST;
            return problem(status, "ambiguous_credentials", detail);
        }
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
        Credentials::Missing(required) => missing(required),
    };
    let mut refusal = problem(StatusCode::UNAUTHORIZED, error, detail);
    let challenge = HeaderValue::from_static(challenge);
    let headers = refusal.response.headers_mut();
    headers.insert(WWW_AUTHENTICATE, challenge);
    refusal
}

/// Returns the `error`, the detail and the challenge of a 401 for missing credentials.
const fn missing(required: Required) -> (&'static str, &'static str, &'static str) {
    let (detail, challenge) = match required {
        Required::ApiKey => ("An API key is required.", "ApiKey realm=\"tidegate\""),
        Required::Token => ("A token is required.", "Bearer realm=\"tidegate\""),
        Required::Verified => (
            "An API key or a token is required.",
            "ApiKey realm=\"tidegate\", Bearer realm=\"tidegate\"",
        ),
    };
    ("credentials_required", detail, challenge)
}

/// Returns 403 for a client that is listed under `deny`, or blocked by an override.
pub(crate) fn denied() -> Refusal {
    let detail = "This client is denied access.";
    problem(StatusCode::FORBIDDEN, "denied", detail)
}

/// Returns 503 for a request under a limit that refuses requests while the store does not answer.
pub(crate) fn no_store() -> Refusal {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let detail =
        "The store of the rate limits does not answer. The request itself is not at fault.";
    let mut refusal = respond(&Problem {
        kind: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        ..Problem::of(status, "limits_unavailable", &[detail])
    });
    let headers = refusal.response.headers_mut();
    headers.insert(RETRY_AFTER, digits(1));
    refusal
}

impl<'a> Problem<'a> {
    /// Makes problem details with the generic type `about:blank`.
    fn of(status: StatusCode, error: &'static str, detail: &'a [&'a str]) -> Self {
        Self {
            kind: "about:blank",
            status,
            detail,
            error,
            retry_after: None,
            violated_policies: &[],
        }
    }

    /// Writes JSON directly, in a small part of the time that a tree of values takes. A refusal must cost less than the refused request.
    fn json(&self) -> Vec<u8> {
        let title = self.status.canonical_reason().unwrap_or("Refused");
        let mut number = itoa::Buffer::new();
        let mut json = Vec::with_capacity(USUAL);
        // The gateway's own texts need no escapes.
        put(
            &mut json,
            [r#"{"type":""#, self.kind, r#"","title":""#, title],
        );
        let status = number.format(self.status.as_u16());
        put(&mut json, [r#"","status":"#, status, r#","detail":""#]);
        for part in self.detail {
            put_text(&mut json, part);
        }
        put(&mut json, [r#"","error":""#, self.error, r#"""#]);
        if let Some(seconds) = self.retry_after {
            put(&mut json, [r#","retry_after":"#, number.format(seconds)]);
        }
        let (mut before, mut end) = (r#","violated-policies":[""#, "}");
        for name in self.violated_policies {
            put(&mut json, [before]);
            put_text(&mut json, name);
            (before, end) = (r#"",""#, r#""]}"#);
        }
        put(&mut json, [end]);
        json
    }
}

/// Adds texts to JSON as they are.
fn put<const N: usize>(json: &mut Vec<u8>, texts: [&str; N]) {
    for text in texts {
        json.extend_from_slice(text.as_bytes());
    }
}

/// Adds a text to a string of JSON.
fn put_text(json: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        return put(json, [text]);
    }
    let quoted = serde_json::Value::from(text).to_string();
    put(json, [&quoted[1..quoted.len() - 1]]);
}

/// Returns whether a text needs no escapes in JSON. Does not stop at the first special byte: without an early end, the CPU checks several
/// bytes at once, ten times as fast.
fn is_plain(text: &str) -> bool {
    let is_special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    !text.bytes().fold(false, |any, byte| any | is_special(byte))
}

fn respond(problem: &Problem<'_>) -> Refusal {
    let kind = HeaderValue::from_static("application/problem+json");
    Refusal {
        response: answer(problem.status, kind, problem.json().into()),
        error: Some(problem.error),
    }
}

fn answer(status: StatusCode, kind: HeaderValue, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Rounds up to whole seconds. Returns at least 1, because a client that retries at once would be refused again.
pub(crate) fn whole_seconds(micros: Micros) -> u64 {
    micros.div_ceil(1_000_000).max(1)
}

#[cfg(test)]
mod tests;
