//! The rules for retries of a route's requests, and the budget that bounds them.

use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body::Body as _;
use tower::retry::budget::TpsBudget;

use super::body::RequestBody;
use super::settings::RetrySettings;

/// The time for which a request adds retries to the budget.
const REMEMBERED: Duration = Duration::from_secs(10);

/// The number of retries a second that are always allowed, so that a route with few requests can retry.
const ALWAYS: u32 = 1;

/// The retries of a route.
#[derive(Debug)]
pub struct Retries {
    pub(crate) settings: RetrySettings,
    /// Bounds the number of retries to the configured share of requests plus one a second.
    pub(crate) budget: TpsBudget,
}

impl Retries {
    /// Returns the retries of one route. Its budget begins empty.
    pub fn new(settings: RetrySettings) -> Self {
        // The percentage is at most 100, so the conversion is exact.
        let share = settings.budget as f32 / 100.0;
        Self {
            budget: TpsBudget::new(REMEMBERED, ALWAYS, share),
            settings,
        }
    }
}

/// Returns whether a request has a safe method (RFC 9110, 9.2.1) and no body, so that it may be sent twice.
pub(crate) fn is_safe(request: &Request<RequestBody>) -> bool {
    let safe = [Method::GET, Method::HEAD, Method::OPTIONS];
    safe.contains(request.method()) && request.body().is_end_stream()
}

/// Returns whether a status may be a temporary error, so that another server may answer better.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

/// Returns whether sending a request twice has the same effect as sending it once (RFC 9110, 9.2.2). Such a request may be sent again after
/// its connection was closed (RFC 9112, 9.3.1).
pub(crate) fn is_idempotent(method: &Method) -> bool {
    let others = [Method::PUT, Method::DELETE];
    method.is_safe() || others.contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_an_effect_each_time_are_not_idempotent() {
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"] {
            assert!(is_idempotent(&method.parse().unwrap()), "{method}");
        }
        for method in ["POST", "PATCH", "PROPFIND"] {
            assert!(!is_idempotent(&method.parse().unwrap()), "{method}");
        }
    }
}
