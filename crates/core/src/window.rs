//! One count for each window: what fixed windows and windows of a calendar share. The other writing of this file is
//! `lua/window.lua`.

use crate::numbers::MAX_EXACT;
use crate::{Micros, Verdict};

/// What was admitted in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCount {
    /// When the window started, in us.
    pub start: Micros,
    /// How much was admitted in it.
    pub count: u64,
}

impl WindowCount {
    /// The count of the window that counts: the one that starts at `start`, or one that the clock has stepped back from.
    pub(crate) const fn settled(&self, start: Micros) -> Self {
        match self.start >= start {
            true => *self,
            false => Self { start, count: 0 },
        }
    }

    /// Decides, as [`crate::Algorithm::check`], in the window from `start` to `end`. The next one ends at `next_end`.
    pub(crate) fn check(
        &mut self,
        [start, end, next_end]: [Micros; 3],
        limit: u64,
        cost: u64,
        now: Micros,
    ) -> Verdict {
        // The clock stepped back by more than a window: the count moves to the current one.
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
