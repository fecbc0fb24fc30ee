//! The settings of a route's answers: rate-limit headers and refusals.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

/// The settings of a route's answers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The rate-limit headers.
    pub headers: RateLimitHeaders,
    /// The answer to a request that a limit refuses.
    pub reject: Reject,
}

/// The kinds of rate-limit headers in answers. `Retry-After` is not configured here, because every refusal has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// Whether answers have `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, and the format of `X-RateLimit-Reset`.
    /// `None` if answers have none of the three headers.
    pub x_ratelimit: Option<Reset>,
    /// Whether answers have `RateLimit-Policy` and `RateLimit`, by draft 11 of the IETF's specification.
    pub ietf: bool,
}

impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self {
            x_ratelimit: Some(Reset::Epoch),
            ietf: false,
        }
    }
}

/// The format of `X-RateLimit-Reset`, in seconds, rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// The time of the reset, counted from the epoch.
    #[default]
    Epoch,
    /// The time until the reset, counted from now.
    Delta,
}

/// The answer to a request that a limit refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// The status of the answer, 400 to 599.
    pub status: StatusCode,
    /// The `Content-Type` and the body of the answer. `None` if the body is problem details (RFC 9457).
    pub body: Option<(HeaderValue, Bytes)>,
}

impl Default for Reject {
    fn default() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            body: None,
        }
    }
}
