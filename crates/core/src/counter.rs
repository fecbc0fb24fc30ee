//! Counts per window. All windows have the same length, so several gateways can add up their counts.

use crate::Micros;

/// The windows of an algorithm that counts units per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The length of a window, in us.
    pub window: Micros,
    /// Whether the window before the current one counts as well.
    pub has_previous: bool,
}

/// The counts of the current window and of the window before it, in units of cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPair {
    /// The time at which the current window started, in us.
    pub start: Micros,
    /// The units admitted in the current window.
    pub current: u64,
    /// The units admitted in the previous window.
    pub previous: u64,
}
