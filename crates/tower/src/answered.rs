//! The facts of an answer beside its head and its body.

use crate::{Decided, InFlight};

/// The facts of an answer, in its extensions. The limits add theirs to those of the service behind them.
#[derive(Clone, Debug, Default)]
pub struct Answered<F = ()> {
    /// The decision about the request.
    pub decided: Option<Decided>,
    /// The holds of the request, until the body has ended.
    pub in_flight: Option<InFlight>,
    /// The `error` of the problem details, for a log, which does not read bodies. A refusal by a limit has none, because its limit says
    /// more.
    pub error: Option<&'static str>,
    /// The service behind the limits notes here the exchange with the upstream.
    pub forwarded: F,
}
