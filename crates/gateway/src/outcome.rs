//! The facts that forwarding adds to an answer.

use http::Response;
use tidegate_telemetry::Forwarded;

/// The facts of an answer.
pub(crate) type Answered = tidegate_tower::Answered<ForwardOutcome>;

/// The way of a request through forwarding.
#[derive(Clone, Debug, Default)]
pub(crate) enum ForwardOutcome {
    /// The request did not reach forwarding.
    #[default]
    None,
    /// The request was sent, or was to be sent, to the upstream.
    Sent(Forwarded),
    /// It was a CORS preflight, which the gateway answered.
    Preflight,
}

impl ForwardOutcome {
    /// Returns whether the upstream answered.
    pub(crate) const fn is_answered(&self) -> bool {
        matches!(self, Self::Sent(forwarded) if forwarded.answered)
    }
}

/// Takes the facts of an answer out of its extensions.
pub(crate) fn split<B>(mut response: Response<B>) -> (Response<B>, Answered) {
    let answered = response.extensions_mut().remove();
    (response, answered.unwrap_or_default())
}
