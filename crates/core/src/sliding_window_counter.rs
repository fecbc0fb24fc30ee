//! `sliding_window_counter`: two counts that approximate a sliding window.
//!
//! Admits cost c when current + c + previous × (window − elapsed)/window <= limit. This estimate assumes that the previous window's
//! requests came evenly. Promise: the estimate never exceeds the limit, and the true count of any window stays below twice the limit.
//! `lua/sliding_window_counter.lua` computes the same results.

use crate::numbers::{MAX_EXACT, at_most, window_quota, written_span};
use crate::{Algorithm, Counter, Micros, Mode, Numbers, QuotaError, Verdict, WindowPair};

/// The shortest window, in us, in which elapsed time counts in whole milliseconds. In microseconds, products of such windows could exceed
/// 2^53.
const COARSE_FROM: Micros = 3_600 * 1_000_000;

/// The quota of a sliding window counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindowCounter {
    limit: u64,
    window: Micros,
    // The step in which elapsed time counts, in us: 1, or 1,000 for windows of an hour and more.
    unit: Micros,
}

impl SlidingWindowCounter {
    /// Returns a quota of at most `limit` per sliding `window`, by estimate.
    ///
    /// # Errors
    ///
    /// The limit or the window is 0, or either of them is too large.
    pub fn new(limit: u64, window: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, window)?;
        let unit = if window < COARSE_FROM { 1 } else { 1_000 };
        if !window.is_multiple_of(unit) {
            return Err(QuotaError::UnevenWindow);
        }
        let quota = Self {
            limit,
            window,
            unit,
        };
        at_most(quota.largest(), limit)?;
        Ok(quota)
    }

    /// Returns the window's length in steps.
    const fn steps(&self) -> u64 {
        self.window / self.unit
    }

    /// Returns the largest limit whose product with the steps of two windows stays below 2^53.
    const fn largest(&self) -> u64 {
        MAX_EXACT / (2 * self.steps())
    }

    /// Returns the steps of the current window that are left at `now`.
    const fn left(&self, pair: &WindowPair, now: Micros) -> u64 {
        self.steps() - now.saturating_sub(pair.start) / self.unit
    }

    /// Returns the units that are left at `now`.
    fn remaining(&self, pair: &WindowPair, now: Micros) -> u64 {
        let (steps, left) = (self.steps(), self.left(pair, now));
        let free = self.limit.saturating_sub(pair.current) * steps;
        // If `pair.previous` exceeds the limit, `pair.previous * left` may be inexact, so the condition divides instead.
        if pair.previous > 0 && left > free / pair.previous {
            return 0;
        }
        (free - pair.previous * left) / steps
    }

    /// Returns the time after `pair.start` at which a refused cost fits, in us: the smallest number of whole steps that satisfies the
    /// formula.
    fn fits_after(&self, pair: &WindowPair, cost: u64) -> Micros {
        let steps = self.steps();
        // In the current window, the cost fits when the weighted previous count is at most `free`.
        if let Some(free) = self.limit.checked_sub(pair.current + cost) {
            let share = (free * steps).checked_div(pair.previous).unwrap_or(steps);
            if share > 0 {
                return steps.saturating_sub(share) * self.unit;
            }
        }
        // In the next window, the current count becomes the previous count, and the new count is 0.
        let free = self.limit - cost;
        let share = (free * steps).checked_div(pair.current).unwrap_or(steps);
        self.window + steps.saturating_sub(share) * self.unit
    }
}

impl Algorithm for SlidingWindowCounter {
    type State = WindowPair;

    const MODES: &'static [Mode] = &Mode::ALL;
    const IS_GRADUAL: bool = true;

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, state: &mut WindowPair, cost: u64, now: Micros) -> Verdict {
        state.bound(self.window, now);
        let pair = state.settled(self.window, now);
        let remaining = self.remaining(&pair, now);
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            remaining,
            reset: pair.reset(self.window, now),
            retry_after: if allowed {
                0
            } else {
                pair.start + self.fits_after(&pair, cost) - now
            },
            ..Verdict::default()
        }
    }

    fn commit(&self, state: &mut WindowPair, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining -= cost;
        verdict.reset = state.reset(self.window, now);
    }

    fn charge(&self, state: &mut WindowPair, cost: u64, now: Micros) {
        *state = state.settled(self.window, now);
        state.add(cost);
    }

    fn excess(&self, state: &WindowPair, now: Micros) -> u64 {
        let pair = state.settled(self.window, now);
        if pair.previous > self.largest() {
            return WindowPair::LARGEST_COUNT;
        }
        let weighted = (pair.previous * self.left(&pair, now)).div_ceil(self.steps());
        (pair.current + weighted).saturating_sub(self.limit)
    }

    fn expires(&self, state: &WindowPair) -> Micros {
        state.expires(self.window)
    }

    /// Returns the limit, the window in us, and the step in which elapsed time counts, in us.
    fn numbers(&self, _now: Micros) -> Numbers {
        [self.limit, self.window, self.unit].into()
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
        at - at % self.window + 2 * self.window
    }

    fn windows(&self, state: &WindowPair, now: Micros) -> Option<WindowPair> {
        Some(state.settled(self.window, now))
    }

    fn counter(&self) -> Option<Counter> {
        Some(Counter {
            window: self.window,
            has_previous: true,
        })
    }

    fn counted(&self, counts: WindowPair) -> WindowPair {
        counts
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Self::new(capacity, self.window)
    }
}
