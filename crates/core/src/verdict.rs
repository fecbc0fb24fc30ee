//! The verdict of one limit on one request.

use crate::Micros;

/// One limit's answer: whether the request fits, and the numbers for clients.
///
/// When the whole request is admitted, `remaining` and `reset` already include its cost. When it is refused, by this limit or
/// another, they describe the state as it stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether this limit allows the request.
    pub allowed: bool,
    /// Whether it is refused only because of units that running requests hold: it may fit when they end.
    pub settling: bool,
    /// The units of cost that could still be admitted now.
    pub remaining: u64,
    /// The us until no used unit counts any more.
    pub reset: Micros,
    /// The us until a request of this cost is admitted if no other request comes; 0 if allowed.
    pub retry_after: Micros,
    /// The us to wait before going on; only a leaky bucket sets it.
    pub delay: Micros,
}
