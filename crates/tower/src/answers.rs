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

/// The rate-limit headers of answers: both kinds, one kind or none. `Retry-After` is not among them: every refusal has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// Whether answers have `X-RateLimit-Limit`, `-Remaining` and `-Reset`, and the format of the last.
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

/// The format of `X-RateLimit-Reset`: seconds, rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// Since the epoch.
    #[default]
    Epoch,
    /// From now.
    Delta,
}

/// The answer to a request that a limit refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Its status, 400 to 599.
    pub status: StatusCode,
    /// Its body and the `Content-Type`; none: problem details.
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
