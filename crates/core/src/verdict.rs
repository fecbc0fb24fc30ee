//! The verdict of one limit on one request.

use crate::Micros;

/// One limit's answer: whether the request fits, and the numbers for clients.
///
/// If all limits admit the request, `remaining` and `reset` include its cost. If any limit refuses the request, no limit is charged, and
/// both numbers exclude the request's cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Whether this limit allows the request.
    pub allowed: bool,
    /// Whether the refusal has only one cause: units that running requests hold. The refused request may fit when the running requests end.
    pub settling: bool,
    /// The units of cost that could still be admitted now.
    pub remaining: u64,
    /// The time until all used units are free again, in us.
    pub reset: Micros,
    /// The time until a request of this cost is admitted, in us, if no other request comes. 0 if this request is allowed.
    pub retry_after: Micros,
    /// The time until the turn of an admitted request, in us. Only a leaky bucket sets this field.
    pub delay: Micros,
}
