//! The facts of an answer beside its head and its body.

use crate::{Decided, InFlight};

/// The facts of an answer, in its extensions. The service behind the limits sets some, and the limits add the others.
#[derive(Clone, Debug, Default)]
pub struct Answered<F = ()> {
    /// The decision about the request.
    pub decided: Option<Decided>,
    /// The holds of the request, until the body has ended.
    pub in_flight: Option<InFlight>,
    /// The `error` of the problem details, for a log, which does not read bodies. A refusal by a limit has none: the log has the limit.
    pub error: Option<&'static str>,
    /// The service behind the limits notes here the exchange with the upstream.
    pub forwarded: F,
}
