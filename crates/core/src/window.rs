//! One count per window, for fixed windows and windows of a calendar. `lua/window.lua` computes the same results.

use crate::numbers::MAX_EXACT;
use crate::{Micros, Verdict, WindowPair};

/// The count of one window, in units of cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCount {
    /// The time at which the window started, in us.
    pub start: Micros,
    /// The units admitted in the window.
    pub count: u64,
}

impl From<WindowPair> for WindowCount {
    fn from(windows: WindowPair) -> Self {
        Self {
            start: windows.start,
            count: windows.current,
        }
    }
}

impl WindowCount {
    /// Returns the count as counts of two windows. The window before it does not count.
    pub(crate) const fn as_pair(&self) -> WindowPair {
        WindowPair {
            start: self.start,
            current: self.count,
            previous: 0,
        }
    }

    /// Returns the count of the window that starts at `start`. If the clock stepped back, a later window may have a count already, which is
    /// returned instead.
    pub(crate) const fn settled(&self, start: Micros) -> Self {
        match self.start >= start {
            true => *self,
            false => Self { start, count: 0 },
        }
    }

    /// Decides in the window from `start` to `end` ([`crate::Algorithm::check`]). The window after it ends at `next_end`.
    pub(crate) fn check(
        &mut self,
        [start, end, next_end]: [Micros; 3],
        limit: u64,
        cost: u64,
        now: Micros,
    ) -> Verdict {
        // The clock stepped back by more than a window: the count moves to the current window.
        if self.start > end {
            self.start = start;
        }
        let settled = self.settled(start);
        let end = if settled.start < end { end } else { next_end };
        let remaining = limit.saturating_sub(settled.count);
        let (allowed, left) = (cost <= remaining, end - now);
        Verdict {
            allowed,
            remaining,
            reset: left,
            retry_after: if allowed { 0 } else { left },
            ..Verdict::default()
        }
    }

    /// Charges a cost in the window that starts at `start`, as [`crate::Algorithm::charge`].
    pub(crate) fn charge(&mut self, start: Micros, cost: u64) {
        *self = self.settled(start);
        self.count = self.count.saturating_add(cost).min(MAX_EXACT);
    }
}
