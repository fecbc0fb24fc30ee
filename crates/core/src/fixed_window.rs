//! `fixed_window`: at most the limit per window. Windows start at multiples of their length since the epoch.
//!
//! Admits cost c when count + c <= limit. Promise: at most the limit per window, and so at most twice the limit in any span of a window's
//! length. `lua/fixed_window.lua` computes the same results.

use crate::numbers::{MAX_SPAN, at_most, window_quota, written_span};
use crate::{
    Algorithm, Counter, Micros, Mode, Numbers, QuotaError, Verdict, WindowCount, WindowPair,
};

/// The quota of a fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    limit: u64,
    window: Micros,
}

impl FixedWindow {
    /// Returns a quota of at most `limit` per `window`.
    ///
    /// # Errors
    ///
    /// The limit or the window is 0, or either of them is too large.
    pub fn new(limit: u64, window: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, window)?;
        at_most(MAX_SPAN, limit)?;
        Ok(Self { limit, window })
    }

    /// Returns the start of the window at `now`.
    const fn start(&self, now: Micros) -> Micros {
        now - now % self.window
    }
}

impl Algorithm for FixedWindow {
    type State = WindowCount;

    const MODES: &'static [Mode] = &Mode::ALL;

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, state: &mut WindowCount, cost: u64, now: Micros) -> Verdict {
        let start = self.start(now);
        let end = start + self.window;
        state.check([start, end, end + self.window], self.limit, cost, now)
    }

    fn charge(&self, state: &mut WindowCount, cost: u64, now: Micros) {
        state.charge(self.start(now), cost);
    }

    fn excess(&self, state: &WindowCount, now: Micros) -> u64 {
        let settled = state.settled(self.start(now));
        settled.count.saturating_sub(self.limit)
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
        self.start(at) + self.window
    }

    fn windows(&self, state: &WindowCount, now: Micros) -> Option<WindowPair> {
        Some(state.settled(self.start(now)).as_pair())
    }

    fn counter(&self) -> Option<Counter> {
        Some(Counter {
            window: self.window,
            has_previous: false,
        })
    }

    fn counted(&self, counts: WindowPair) -> WindowCount {
        counts.into()
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Self::new(capacity, self.window)
    }
}
