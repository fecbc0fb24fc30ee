//! What was read, and what could not be.

use crate::error::Refused;

/// What was read so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All lines.
    pub lines: u64,
    /// Lines that are requests.
    pub requests: u64,
    /// Lines that are none by their format, such as comments and other lines of tidegate's log.
    pub others: u64,
    /// Lines that are wrong.
    pub refused: u64,
    /// The first wrong lines, five at most.
    pub first_refused: Vec<Refused>,
    /// Requests that the log itself calls lost.
    pub lost: u64,
    /// Requests that arrived before one that came earlier in the log, by more than could be put in order.
    pub backward: u64,
    /// The longest time from the arrival of such a request to the newest line, in microseconds.
    pub farthest_back: u64,
}
