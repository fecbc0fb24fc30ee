//! Counts of the lines of logs.

use crate::error::Refused;

/// Counts of the lines read so far.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All lines.
    pub lines: u64,
    /// Lines that are requests.
    pub requests: u64,
    /// Lines that are no requests by their format, such as comments and lines of tidegate's other log.
    pub others: u64,
    /// Wrong lines.
    pub refused: u64,
    /// The first wrong lines, five at most.
    pub first_refused: Vec<Refused>,
    /// Requests that the log itself calls lost.
    pub lost: u64,
    /// Requests that arrived before an earlier request of the log, by more than the reader could put in order.
    pub backward: u64,
    /// The longest time from the arrival of such a request to the newest line, in microseconds.
    pub farthest_back: u64,
}
