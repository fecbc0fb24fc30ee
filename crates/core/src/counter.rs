//! Counts per window. All windows have the same length, so several gateways can add up their counts.

use crate::{MAX_SPAN, Micros};

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

impl WindowPair {
    /// The largest count of a window, 2^52. Divisions of larger counts may be inexact in Lua.
    pub(crate) const LARGEST_COUNT: u64 = MAX_SPAN;

    /// Returns the counts in force at `now`, for windows of this length. After the end of the current window, its count becomes the
    /// previous count.
    pub(crate) fn settled(&self, window: Micros, now: Micros) -> Self {
        let start = now - now % window;
        let counted = Self {
            start: self.start,
            current: self.current.min(Self::LARGEST_COUNT),
            previous: self.previous.min(Self::LARGEST_COUNT),
        };
        if self.start >= start {
            return counted;
        }
        let is_previous = self.start + window == start;
        Self {
            start,
            current: 0,
            previous: if is_previous { counted.current } else { 0 },
        }
    }

    /// Moves the counts to the window that contains `now`, if the clock stepped back by more than a window.
    pub(crate) const fn bound(&mut self, window: Micros, now: Micros) {
        if self.start > now + window {
            self.start = now - now % window;
        }
    }

    /// Adds units to the current window, which contains `now`.
    pub(crate) fn add(&mut self, units: u64) {
        self.current = self.current.saturating_add(units).min(Self::LARGEST_COUNT);
    }

    /// Returns the time until neither window counts, in us.
    pub(crate) const fn reset(&self, window: Micros, now: Micros) -> Micros {
        match (self.current, self.previous) {
            (0, 0) => 0,
            (0, _) => self.start + window - now,
            (_, _) => self.start + 2 * window - now,
        }
    }

    /// Returns the time from which neither window counts, for a state that was charged.
    pub(crate) const fn expires(&self, window: Micros) -> Micros {
        let windows = if self.current > 0 { 2 } else { 1 };
        self.start + windows * window
    }
}
