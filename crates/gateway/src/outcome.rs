//! The data that forwarding adds to an answer.

use tidegate_telemetry::Forwarded;

/// The data of an answer for limits, metrics and logs, in addition to its head and its body.
pub(crate) type Answered = tidegate_tower::Answered<ForwardOutcome>;

/// The result of forwarding a request.
#[derive(Clone, Debug, Default)]
pub(crate) enum ForwardOutcome {
    /// The request was refused before it was forwarded.
    #[default]
    None,
    /// The gateway tried to send the request to the upstream.
    Sent(Forwarded),
    /// The request was a CORS preflight, which the gateway answered.
    Preflight,
    /// The gateway answered with the client's own budgets.
    Served,
    /// The limits admitted a request that another program carries.
    Admitted,
}

impl ForwardOutcome {
    /// Returns whether the upstream answered.
    pub(crate) const fn is_answered(&self) -> bool {
        matches!(self, Self::Sent(forwarded) if forwarded.answered)
    }
}
