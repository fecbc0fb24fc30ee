//! How a route answers: which headers tell of its limits, and what a refusal looks like.

use bytes::Bytes;
use http::{HeaderValue, StatusCode};

/// How a route answers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The headers that tell of limits.
    pub headers: RateLimitHeaders,
    /// What a limit's refusal looks like.
    pub reject: Reject,
}

/// Which headers tell of limits; neither: none do. `Retry-After` is no such header: every refusal has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitHeaders {
    /// Whether there are `X-RateLimit-Limit`, `-Remaining` and `-Reset`, and how the last is written.
    pub x_ratelimit: Option<Reset>,
    /// Whether there are `RateLimit-Policy` and `RateLimit`, as in draft 11 of the IETF's specification.
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

/// How `X-RateLimit-Reset` is written: in seconds, rounded up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// Since the epoch.
    #[default]
    Epoch,
    /// From now.
    Delta,
}

/// What a limit's refusal looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Its status, 400 to 599.
    pub status: StatusCode,
    /// What it says, with its `Content-Type`; none: problem details.
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
