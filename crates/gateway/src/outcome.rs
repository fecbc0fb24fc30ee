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

/// Why a head never became a request: the protocol refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unparsed {
    /// Its line or a header is no HTTP/1.
    Malformed,
    /// It is larger than may be.
    HeadTooLarge,
    /// Its target is longer than may be.
    TargetTooLong,
    /// It is no request of HTTP/2, or not to be served there.
    Http2,
}

impl Unparsed {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 4] = [
        Self::Malformed,
        Self::HeadTooLarge,
        Self::TargetTooLong,
        Self::Http2,
    ];

    /// The word for metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::HeadTooLarge => "head_too_large",
            Self::TargetTooLong => "target_too_long",
            Self::Http2 => "http2",
        }
    }
}
