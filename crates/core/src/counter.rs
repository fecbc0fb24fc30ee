//! Counts by windows of one length, which several gateways can add up.

use crate::Micros;

/// The windows of an algorithm that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The length of a window, in us.
    pub window: Micros,
    /// Whether the window before the current one counts as well.
    pub has_previous: bool,
}

/// What was admitted in a window and in the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowPair {
    /// When the current window started, in us.
    pub start: Micros,
    /// How much was admitted in it.
    pub current: u64,
    /// How much was admitted in the one before.
    pub previous: u64,
}
