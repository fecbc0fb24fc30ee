//! What forwarding leaves in an answer.

use tidegate_telemetry::Forwarded;

/// What forwarding did with a request: the one extension that the gateway's own parts leave in an answer.
#[derive(Clone, Debug)]
pub(crate) enum ForwardOutcome {
    /// The request was sent, or was to be sent, to the upstream.
    Sent(Forwarded),
    /// It was a CORS preflight, which the gateway answered.
    Preflight,
}
