//! The words for what became of a request, which metrics and logs share.

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// The upstream answered.
    Forwarded,
    /// 204: a browser asked whether it may send a request, and was told by the gateway.
    Preflight,
    /// 429: a limit refused it.
    Limited,
    /// A limit refused it, and it was not answered.
    Dropped,
    /// 503: a limit had no store.
    Unavailable,
    /// 4xx, or a redirect to https: the request itself cannot be served.
    Rejected,
    /// 503: the gateway is short of memory.
    Shed,
    /// 502, 503, 504: the upstream gave no proper answer, or there is none to ask.
    Failed,
    /// The client left before it was answered.
    Abandoned,
}

impl RequestOutcome {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 9] = [
        Self::Forwarded,
        Self::Preflight,
        Self::Limited,
        Self::Dropped,
        Self::Unavailable,
        Self::Rejected,
        Self::Shed,
        Self::Failed,
        Self::Abandoned,
    ];

    /// The word for metrics and logs.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Forwarded => "forwarded",
            Self::Preflight => "preflight",
            Self::Limited => "limited",
            Self::Dropped => "dropped",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Shed => "shed",
            Self::Failed => "failed",
            Self::Abandoned => "abandoned",
        }
    }
}
