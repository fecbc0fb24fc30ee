//! What one limit says of one request.

use crate::Micros;

/// One limit's answer: whether the request fits, and the numbers that clients are told.
///
/// When the whole request is admitted, `remaining` and `reset` already include its cost. When it is refused, by this limit or
/// another, they describe the state as it stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether this limit lets the request through.
    pub allowed: bool,
    /// Whether it is refused only because of units that running requests hold: it may fit when they end.
    pub settling: bool,
    /// How much more could be admitted now, in units of cost.
    pub remaining: u64,
    /// How long until nothing used is counted any more, in us.
    pub reset: Micros,
    /// How long until a request of this cost is admitted if nothing else comes, in us; 0 when allowed.
    pub retry_after: Micros,
    /// How long the request should wait before it goes on, in us; only a leaky bucket asks for it.
    pub delay: Micros,
}
