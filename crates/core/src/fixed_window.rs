//! `fixed_window`: so many per window, windows starting at multiples of their length since the epoch.
//!
//! Admits cost c when count + c <= limit. Promise: at most the limit per window, and so at most twice the limit in any
//! span of one window. The other writing of this file is `lua/fixed_window.lua`.

use crate::numbers::{MAX_EXACT, MAX_SPAN, at_most, window_quota, written_span};
use crate::{Algorithm, Counter, Counts, Micros, Mode, Numbers, QuotaError, Verdict};

/// What was admitted in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCount {
    /// When the window started, in us.
    pub start: Micros,
    /// How much was admitted in it.
    pub count: u64,
}

/// The quota of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: Micros,
}

impl FixedWindow {
    /// At most `limit` per `window`.
    ///
    /// # Errors
    ///
    /// The limit or the window is 0, or one of them is too large.
    pub fn new(limit: u64, window: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, window)?;
        at_most(MAX_SPAN, limit)?;
        Ok(Self { limit, window })
    }

    /// The window's length in us.
    pub const fn window(&self) -> Micros {
        self.window
    }

    /// The count of the window that counts at `now`: the current one, or one that the clock has stepped back from.
    const fn settle(&self, state: &WindowCount, now: Micros) -> WindowCount {
        let start = now - now % self.window;
        if state.start >= start {
            *state
        } else {
            WindowCount { start, count: 0 }
        }
    }
}

impl Algorithm for FixedWindow {
    type State = WindowCount;

    const MODES: &'static [Mode] = &Mode::ALL;

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, state: &mut WindowCount, cost: u64, now: Micros) -> Verdict {
        if state.start > now + self.window {
            state.start = now - now % self.window;
        }
        let settled = self.settle(state, now);
        let remaining = self.limit.saturating_sub(settled.count);
        let end = settled.start + self.window - now;
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            settling: false,
            remaining,
            reset: end,
            retry_after: if allowed { 0 } else { end },
            delay: 0,
        }
    }

    fn commit(&self, state: &mut WindowCount, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining -= cost;
    }

    fn charge(&self, state: &mut WindowCount, cost: u64, now: Micros) {
        *state = self.settle(state, now);
        state.count = state.count.saturating_add(cost).min(MAX_EXACT);
    }

    fn excess(&self, state: &WindowCount, now: Micros) -> u64 {
        self.settle(state, now).count.saturating_sub(self.limit)
    }

    fn expires(&self, state: &WindowCount) -> Micros {
        state.start + self.window
    }

    fn numbers(&self, _now: Micros) -> Numbers {
        [self.limit, self.window].into()
    }

    fn period(&self) -> Micros {
        self.window
    }

    fn written(&self) -> String {
        format!("limit {}, window {}", self.limit, written_span(self.window))
    }

    fn window_name(&self) -> Option<String> {
        Some(self.window.to_string())
    }

    fn counts_until(&self, at: Micros) -> Micros {
        at - at % self.window + self.window
    }

    fn counter(&self) -> Option<Counter> {
        Some(Counter {
            window: self.window,
            has_previous: false,
        })
    }

    fn counted(&self, counts: Counts) -> WindowCount {
        WindowCount {
            start: counts.start,
            count: counts.current,
        }
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Self::new(capacity, self.window)
    }

    fn divided(&self, parts: u64) -> Self {
        Self {
            limit: (self.limit / parts.max(1)).max(1),
            ..*self
        }
    }
}
