//! The problems that clients receive if an upstream gives no answer.

use std::time::Duration;

use http::StatusCode;

use crate::request::problem::Problem;
use tidegate_upstream::{BodyPhase, BodyState, ConnectError, SendError};

/// The time after which a client should send a refused request again.
const AGAIN: Duration = Duration::from_secs(1);

/// Returns the problem for an error. The problem names the client's fault if the request's body failed, and otherwise the upstream's fault.
pub(super) fn explain(error: &SendError, body_state: Option<&BodyState>) -> Problem {
    match body_state.map(BodyState::phase) {
        Some(BodyPhase::TooLarge) => return TOO_LARGE,
        Some(BodyPhase::Stalled) => return CLIENT_STALLED,
        Some(BodyPhase::TooSlow) => return CLIENT_TOO_SLOW,
        Some(BodyPhase::Broken) => return BROKEN_BODY,
        Some(BodyPhase::Forwarded | BodyPhase::AwaitingClient) | None => {}
    }
    match error {
        SendError::Down(again) => UPSTREAM_DOWN.retry_after(*again),
        SendError::Unread(error) => {
            tracing::debug!(%error, "a request's body broke off");
            BROKEN_BODY
        }
        SendError::Busy => UPSTREAM_BUSY,
        SendError::Exhausted => OVERLOADED,
        SendError::Silent => UPSTREAM_SILENT,
        SendError::Unconnected(ConnectError::Unreachable(error))
            if error.kind() == std::io::ErrorKind::TimedOut =>
        {
            UPSTREAM_SILENT
        }
        SendError::Unconnected(ConnectError::Unreachable(error)) => {
            tracing::debug!(%error, "no server of the upstream accepts connections");
            UPSTREAM_UNREACHABLE
        }
        SendError::Unconnected(ConnectError::Untrusted) => UPSTREAM_UNTRUSTED,
        SendError::Refused(error) => {
            tracing::debug!(%error, "the upstream refused a request before it processed it");
            UPSTREAM_REFUSED
        }
        SendError::Failed(error) => {
            tracing::debug!(%error, "the upstream failed");
            UPSTREAM_FAILED
        }
    }
}

pub(super) const TOO_LARGE: Problem = Problem::new(
    StatusCode::PAYLOAD_TOO_LARGE,
    "body_too_large",
    "The request's body is larger than this route allows.",
);
pub(super) const NO_HOST: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "bad_host",
    "The request names no host.",
);
const CLIENT_STALLED: Problem = Problem::new(
    StatusCode::REQUEST_TIMEOUT,
    "body_timeout",
    "The request's body stopped coming.",
);
const CLIENT_TOO_SLOW: Problem = Problem::new(
    StatusCode::REQUEST_TIMEOUT,
    "body_timeout",
    "The request's body came too slowly.",
);
const BROKEN_BODY: Problem = Problem::new(
    StatusCode::BAD_REQUEST,
    "broken_body",
    "The request's body cannot be read.",
);
const UPSTREAM_UNREACHABLE: Problem = Problem::new(
    StatusCode::BAD_GATEWAY,
    "upstream_unreachable",
    "The API does not accept connections.",
);
const UPSTREAM_UNTRUSTED: Problem = Problem::new(
    StatusCode::BAD_GATEWAY,
    "upstream_untrusted",
    "The gateway has no valid TLS connection to the API.",
);
const UPSTREAM_DOWN: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "upstream_down",
    "No server of the API is available.",
);
const UPSTREAM_BUSY: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "upstream_busy",
    "The API has its maximum number of requests.",
)
.retry_after(AGAIN);
const OVERLOADED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "The gateway has no room for another connection to the API.",
)
.retry_after(AGAIN);
pub(super) const UPSTREAM_FAILED: Problem = Problem::new(
    StatusCode::BAD_GATEWAY,
    "upstream_failed",
    "The API ended the connection, or sent no valid answer.",
);
const UPSTREAM_REFUSED: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "upstream_refused",
    "The API refused the request before it processed it. The request can be sent again.",
)
.retry_after(AGAIN);
const UPSTREAM_SILENT: Problem = Problem::new(
    StatusCode::GATEWAY_TIMEOUT,
    "upstream_timeout",
    "The API did not answer in time.",
);
