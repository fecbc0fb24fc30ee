//! The gateway's own answers to requests that it cannot forward.

use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use tidegate_tower::{AnswerBody, Reject};

use crate::body::Body;

/// An error answer of the gateway that no limit caused: its status, an `error` for programs and a `detail` for people.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) error: &'static str,
    detail: &'static str,
    allow: Option<HeaderValue>,
    challenge: Option<&'static str>,
    retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) const fn new(status: StatusCode, error: &'static str, detail: &'static str) -> Self {
        Self {
            status,
            error,
            detail,
            allow: None,
            challenge: None,
            retry_after: None,
        }
    }

    /// Returns a 405 with the allowed methods.
    pub(crate) fn method_not_allowed(allow: HeaderValue) -> Self {
        Self {
            allow: Some(allow),
            ..Self::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "This path does not accept this method.",
            )
        }
    }

    /// Adds a `WWW-Authenticate` header with this challenge.
    pub(crate) const fn challenge(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// Adds a `Retry-After` header with this time.
    pub(crate) const fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Whether the request itself is malformed or needs another connection. A request that only lacks a route, or a method that its route
    /// serves, is not malformed.
    pub(crate) fn is_malformed(&self) -> bool {
        self.status != StatusCode::NOT_FOUND && self.allow.is_none()
    }

    pub(crate) fn respond<B: AnswerBody>(self) -> Response<B> {
        let mut response = tidegate_tower::problem(self.status, self.error, self.detail);
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, allow);
        }
        if let Some(challenge) = self.challenge {
            let challenge = HeaderValue::from_static(challenge);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some(wait) = self.retry_after {
            let seconds = wait.as_millis().div_ceil(1_000).max(1);
            let seconds = u64::try_from(seconds).unwrap_or(u64::MAX);
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Answers a request without a route. For 404 the configuration may define the answer with `no_route`.
pub(crate) fn unmatched(problem: Problem, no_route: Option<&Reject>) -> Response<Body> {
    let Some(answer) = no_route.filter(|_| problem.status == StatusCode::NOT_FOUND) else {
        return problem.respond();
    };
    let mut response = match &answer.body {
        None => problem.respond(),
        Some((kind, body)) => {
            let mut response = Response::new(Body::from(body.clone()));
            response.headers_mut().insert(CONTENT_TYPE, kind.clone());
            response
        }
    };
    *response.status_mut() = answer.status;
    response
}

/// The answer to a request that is shed. The client may retry after a second, because other requests may have freed their memory by then.
pub(crate) const OVERLOADED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "The gateway is short of memory.",
)
.retry_after(Duration::from_secs(1));

/// The answer to a request whose client certificate has expired. Its status makes the client open a new connection, whose handshake
/// requires a valid certificate.
pub(crate) const CERTIFICATE_ENDED: Problem = Problem::new(
    StatusCode::MISDIRECTED_REQUEST,
    "certificate_expired",
    "The client certificate of this connection has expired.",
);
