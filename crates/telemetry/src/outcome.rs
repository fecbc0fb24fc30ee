//! The outcomes of requests. Metrics and logs use the same words for them.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidegate_upstream::{Attempts, BodyState};

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The upstream answered.
    Forwarded,
    /// The limits admitted a request that another program carries.
    Admitted,
    /// 204: the gateway answered a CORS preflight.
    Preflight,
    /// 200: the gateway answered with the client's own budgets.
    Served,
    /// 429: a limit refused the request.
    Limited,
    /// A limit refused the request, and the gateway sent no answer.
    Dropped,
    /// 403: the client is listed under `deny`.
    Denied,
    /// 503: the store could not decide on a limit.
    Unavailable,
    /// 4xx, or a redirect to https: the gateway cannot serve this request.
    Rejected,
    /// 503: the gateway is short of memory, or of places for receipts.
    Shed,
    /// 502, 503 or 504: the upstream has no server, gave no valid answer, or cut its answer off.
    Failed,
    /// The client left before the answer.
    Abandoned,
    /// 408, or an answer that was cut off: the client sent its body or took its answer too slowly.
    Slow,
}

impl RequestOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [Self; 13] = [
        Self::Forwarded,
        Self::Admitted,
        Self::Preflight,
        Self::Served,
        Self::Limited,
        Self::Dropped,
        Self::Denied,
        Self::Unavailable,
        Self::Rejected,
        Self::Shed,
        Self::Failed,
        Self::Abandoned,
        Self::Slow,
    ];

    /// Whether the gateway itself refused the request. Clients can cause any number of refusals, so the access log can bound the lines
    /// about them.
    pub const fn is_refusal(self) -> bool {
        match self {
            Self::Limited
            | Self::Dropped
            | Self::Denied
            | Self::Unavailable
            | Self::Rejected
            | Self::Shed => true,
            Self::Forwarded
            | Self::Admitted
            | Self::Preflight
            | Self::Served
            | Self::Failed
            | Self::Abandoned
            | Self::Slow => false,
        }
    }

    /// Returns the word for metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Admitted => "admitted",
            Self::Preflight => "preflight",
            Self::Served => "served",
            Self::Limited => "limited",
            Self::Dropped => "dropped",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Shed => "shed",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
            Self::Slow => "slow",
        }
    }
}

/// The way in which a request reached the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Door {
    /// The gateway itself forwards the request.
    #[default]
    Proxy,
    /// Envoy asked by its `RateLimitService`.
    RateLimitService,
    /// A program asked by `/v1/check`.
    Check,
    /// A proxy asked by `/v1/ask`.
    Ask,
}

impl Door {
    /// Returns the word for metrics and logs. `None` for requests that the gateway forwards.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::Proxy => None,
            Self::RateLimitService => Some("rate_limit_service"),
            Self::Check => Some("check"),
            Self::Ask => Some("ask"),
        }
    }
}

/// The cause of an answer that ended too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The upstream ended its answer too early.
    Upstream,
    /// The upstream sent no data until the timeout ended.
    Timeout,
    /// The client left, or took the answer too slowly.
    Client,
}

impl Cut {
    /// Returns the word for metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Timeout => "timeout",
            Self::Client => "client",
        }
    }

    /// Returns the error for the log. An upstream that fails before it answers has the same error. `None` if the upstream did not cause the
    /// cut.
    pub const fn error(self) -> Option<&'static str> {
        match self {
            Self::Upstream => Some("upstream_failed"),
            Self::Timeout => Some("upstream_timeout"),
            Self::Client => None,
        }
    }
}

/// The result of forwarding a request.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// The time from the first attempt to connect until the head of the answer. Without an answer, until the end of the attempts.
    pub took: Duration,
    /// Whether the upstream answered.
    pub answered: bool,
    /// Whether the upstream could not answer because the client sent the request's body too slowly.
    pub too_slow: bool,
    /// The servers that were tried.
    pub attempts: Attempts,
    /// The state of the request's body, if it has one.
    pub body: Option<Arc<BodyState>>,
}

/// The class of an answer's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    /// There was no answer.
    None,
    /// 101: the request became a tunnel.
    Informational,
    /// 2xx.
    Success,
    /// 3xx.
    Redirection,
    /// 4xx.
    ClientError,
    /// 5xx.
    ServerError,
    /// A status above 599, which HTTP does not define.
    Other,
}

impl StatusClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::None,
        Self::Informational,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Other,
    ];

    /// Returns the class of this status. If there was no answer, `status` is `None` and the class is [`StatusClass::None`].
    pub fn of(status: Option<StatusCode>) -> Self {
        match status.map(|status| status.as_u16() / 100) {
            None => Self::None,
            Some(1) => Self::Informational,
            Some(2) => Self::Success,
            Some(3) => Self::Redirection,
            Some(4) => Self::ClientError,
            Some(5) => Self::ServerError,
            Some(_) => Self::Other,
        }
    }

    /// Returns the word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Other => "other",
        }
    }
}

impl RequestOutcome {
    /// Returns the classes that answers with this outcome usually have. The counters of these classes are created with the value 0 when the
    /// configuration is loaded, so that Prometheus sees the first answer as an increase.
    pub const fn usual(self) -> &'static [StatusClass] {
        use StatusClass::{ClientError, None, Redirection, ServerError, Success};
        match self {
            Self::Forwarded => &[Success, Redirection, ClientError, ServerError],
            Self::Preflight => &[Success],
            // Only doors admit requests that they do not forward, and most gateways have no doors. Few routes have `serve`.
            Self::Admitted | Self::Served => &[],
            Self::Limited | Self::Denied | Self::Rejected => &[ClientError],
            Self::Unavailable | Self::Shed => &[ServerError],
            // An answer that is cut off usually had a status of success.
            Self::Failed => &[Success, ServerError],
            Self::Dropped | Self::Abandoned => &[None],
            Self::Slow => &[Success, ClientError],
        }
    }
}
