//! Counts of the lines of logs.

use crate::error::Refused;

/// Counts of the lines read so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All lines.
    pub lines: u64,
    /// Lines that are requests.
    pub requests: u64,
    /// Decisions of tidegate for other programs that named limits and no request.
    pub questions: u64,
    /// Lines that are no requests by their format, such as comments, and lines of tidegate that are not in its access log.
    pub others: u64,
    /// Wrong lines.
    pub refused: u64,
    /// The first wrong lines, five at most.
    pub first_refused: Vec<Refused>,
    /// Requests that the log reports as lost.
    pub lost: u64,
    /// Requests that the reader could not put in order. They arrived before a request that it had already returned.
    pub backward: u64,
    /// The longest time from the arrival of a request in `backward` to the newest line, in microseconds.
    pub farthest_back: u64,
}
