//! Answers about overrides.

use std::fmt::Display;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use tidegate_tower::problem;

use crate::api::Shown;
use crate::change::Outcome;
use crate::figures::Kept;
use crate::name::Subject;
use crate::setting::Override;

/// The reason that an answer gives for a refused change if [`why`] returns `None`.
pub(super) const NONE: &str = "No override is in force.";

/// An error answer. It is boxed to keep results small, because it is rare.
pub(super) type Refusal = Box<Response<Bytes>>;

pub(super) fn bad(detail: impl Display) -> Refusal {
    let detail = detail.to_string();
    Box::new(problem(StatusCode::BAD_REQUEST, "bad_override", &detail))
}

pub(super) fn none(subject: &Subject) -> Refusal {
    let detail = format!("No override is in force for {subject}.");
    Box::new(problem(StatusCode::NOT_FOUND, "no_override", &detail))
}

pub(super) fn refused(subject: &Subject, outcome: Option<&Outcome>) -> Refusal {
    let Some((status, code, detail)) = outcome.and_then(why) else {
        return none(subject);
    };
    let mut refusal = Box::new(problem(status, code, detail));
    if let Some(Outcome::Conflict(Some(current))) = outcome {
        refusal.headers_mut().insert(ETAG, etag(current));
    }
    refusal
}

/// Returns why a wish was not fulfilled. Returns `None` if the reason is that no override is in force, or if the wish was fulfilled.
pub(super) const fn why(outcome: &Outcome) -> Option<(StatusCode, &'static str, &'static str)> {
    Some(match outcome {
        Outcome::Conflict(_) => (
            StatusCode::PRECONDITION_FAILED,
            "override_changed",
            "Another override is in force than the request expects, or none is. Read it and try again.",
        ),
        Outcome::Full => (
            StatusCode::INSUFFICIENT_STORAGE,
            "too_many_overrides",
            "There are 100,000 overrides, which is the most. Clear some.",
        ),
        Outcome::Over => (
            StatusCode::BAD_REQUEST,
            "bad_override",
            "The override would have ended already.",
        ),
        Outcome::Nothing | Outcome::Set { .. } | Outcome::Cleared { .. } => return None,
    })
}

pub(super) fn method_not_allowed(allow: &'static str) -> Refusal {
    let (status, detail) = (
        StatusCode::METHOD_NOT_ALLOWED,
        "This path does not accept this method.",
    );
    let mut refusal = Box::new(problem(status, "method_not_allowed", detail));
    let allow = HeaderValue::from_static(allow);
    refusal.headers_mut().insert(ALLOW, allow);
    refusal
}

fn etag(it: &Override) -> HeaderValue {
    HeaderValue::try_from(format!("\"{}\"", it.version))
        .unwrap_or_else(|_| HeaderValue::from_static("\"0\""))
}

pub(super) fn shown(it: &Override, note: Option<String>, kept: Kept) -> Response<Bytes> {
    let mut response = json(&Shown {
        note,
        kept: Some(kept),
        ..Shown::of(it)
    });
    response.headers_mut().insert(ETAG, etag(it));
    response
}

pub(super) fn json(it: &impl Serialize) -> Response<Bytes> {
    // Numbers and strings can always be serialized, so the default is never used.
    let mut response = Response::new(serde_json::to_vec(it).unwrap_or_default().into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
