//! `fair_share`: the share of one member in a limit that many members share.
//!
//! The shared limit is a bucket, and a request is checked by it just before. While at least half of the bucket is left, no member is refused,
//! and what members use is not counted. Below that, a member is refused once it has used its *level* or more in the last window. The level is
//! `2 × weight × units × (2 × (left − 1) / capacity)²`. A request takes a unit at least, so `left - 1` units are left after it. The last
//! unit is for members without counted use. Without the 1, a small bucket would be empty before the level falls to the part of a member.
//!
//! Under a constant load, it settles where all members together use what the bucket refills. A member that asks for less than its level
//! gets all, and the others get equal parts by weight (max-min fairness). Switches divide their buffers in the same way (Choudhury, Hahne:
//! Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998).
//!
//! `lua/fair_share.lua` computes the same results. The level is computed with doubles, in the same order of operations.

use crate::numbers::{MAX_EXACT, MAX_WINDOW, at_most, nonzero};
use crate::{Algorithm, Micros, Mode, Numbers, Quota, QuotaError, Verdict, WindowPair};

/// The steps of a window, in which its elapsed time counts.
const STEPS: u64 = 1_000;

/// The shortest window, in us.
const SHORTEST: Micros = 1_000_000;

/// The halvings of a wait in the search for `retry_after`. So `retry_after` exceeds the exact wait by less than 1/1024 of the longest one.
const HALVINGS: usize = 10;

/// The quota of one member of a shared limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FairShare {
    /// The capacity of the shared bucket.
    capacity: u64,
    /// The units that the shared bucket refills in a window.
    units: u64,
    weight: u64,
    /// The length of a window, in us: the time in which the shared bucket refills whole, but a second at least.
    window: Micros,
}

impl FairShare {
    /// Returns the quota of a member of `shared` with this weight.
    ///
    /// # Errors
    ///
    /// The weight is 0, the bucket takes longer than [`MAX_WINDOW`] to refill, or the numbers are too large to be exact.
    pub fn of(shared: &Quota, weight: u64) -> Result<Self, QuotaError> {
        let (capacity, period) = (shared.capacity(), shared.period().max(1));
        let window = ((period + STEPS / 2) / STEPS * STEPS).max(SHORTEST);
        if window > MAX_WINDOW {
            return Err(QuotaError::LongWindow);
        }
        let [whole, all] = [capacity, period].map(u128::from);
        // Rounded to the nearest number, because the window may be shorter than the period by half a millisecond.
        let units = (whole * u128::from(window) + all / 2) / all;
        let units = u64::try_from(units.max(1)).unwrap_or(u64::MAX);
        Self::new(capacity, units, weight, window)
    }

    fn new(capacity: u64, units: u64, weight: u64, window: Micros) -> Result<Self, QuotaError> {
        nonzero("weight", weight)?;
        let what = "weight";
        let largest = MAX_EXACT / (2 * STEPS) / units.max(1);
        match weight > largest {
            true => Err(QuotaError::TooLarge { what, largest }),
            false => Ok(Self {
                capacity,
                units,
                weight,
                window,
            }),
        }
    }

    /// Returns half of the shared bucket, in units. While it is left, no member is refused.
    const fn half(&self) -> u64 {
        self.capacity.div_ceil(2)
    }

    /// Returns the level in thousandths of a unit, if `left` units of the shared bucket are left. `None` if at least half of the bucket is
    /// left: then any use is allowed.
    fn level(&self, left: u64) -> Option<u64> {
        if left >= self.half() {
            return None;
        }
        let part = left.saturating_sub(1) as f64 / self.capacity as f64;
        let most = (8 * self.units * self.weight) as f64;
        Some((most * part * part * STEPS as f64) as u64)
    }

    /// Returns the units that the member may still use, rounded up. A member that has used no unit in the last window may use one.
    fn remaining(&self, pair: &WindowPair, now: Micros, left: u64) -> u64 {
        let Some(level) = self.level(left) else {
            return self.capacity;
        };
        let rest = STEPS - now.saturating_sub(pair.start) / (self.window / STEPS);
        if pair.current == 0 && pair.previous == 0 {
            return level.div_ceil(STEPS).clamp(1, self.capacity);
        }
        let free = level.saturating_sub(pair.current.saturating_mul(STEPS));
        // If `pair.previous` exceeds the level, `pair.previous * rest` may be inexact, so the condition divides instead.
        if pair.previous > 0 && rest > free / pair.previous {
            return 0;
        }
        let free = free - pair.previous * rest;
        free.div_ceil(STEPS).min(self.capacity)
    }

    /// Returns the units that the shared bucket refills in a microsecond.
    fn rate(&self) -> f64 {
        self.units as f64 / self.window as f64
    }

    /// Returns the time until half of the shared bucket is left, in us. Then every cost fits.
    fn until_half(&self, left: u64) -> Micros {
        let missing = self.half().saturating_sub(left);
        (missing as f64 / self.rate()).ceil() as Micros
    }

    /// Returns the wait until a refused cost fits, in us, if no other request comes: the shared bucket refills meanwhile.
    fn wait(&self, pair: &WindowPair, cost: u64, now: Micros, left: u64) -> Micros {
        let rate = self.rate();
        let (mut fits, mut too_short) = (self.until_half(left), 0);
        for _ in 0..HALVINGS {
            let wait = (too_short + fits) / 2;
            let then = now + wait;
            let pair = pair.settled(self.window, then);
            let refilled = (wait as f64 * rate) as u64;
            match cost <= self.remaining(&pair, then, left + refilled) {
                true => fits = wait,
                false => too_short = wait,
            }
        }
        fits
    }
}

impl Algorithm for FairShare {
    type State = WindowPair;

    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Local];
    const IS_GRADUAL: bool = true;
    const IS_SHARE: bool = true;

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn check(&self, state: &mut WindowPair, cost: u64, now: Micros) -> Verdict {
        self.check_within(state, cost, now, None)
    }

    fn check_within(
        &self,
        state: &mut WindowPair,
        cost: u64,
        now: Micros,
        left: Option<u64>,
    ) -> Verdict {
        if !self.counts_within(left) {
            return Verdict {
                allowed: cost <= self.capacity,
                remaining: self.capacity,
                ..Verdict::default()
            };
        }
        let left = left.unwrap_or(self.capacity);
        state.bound(self.window, now);
        let pair = state.settled(self.window, now);
        let remaining = self.remaining(&pair, now, left);
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            remaining,
            // A larger cost may wait for longer than the member's own use counts.
            reset: match allowed {
                true => pair.reset(self.window, now),
                false => pair.reset(self.window, now).max(self.until_half(left)),
            },
            retry_after: match allowed {
                true => 0,
                false => self.wait(&pair, cost, now, left),
            },
            ..Verdict::default()
        }
    }

    /// Returns false while at least half of the shared bucket is left: then the state of no member matters, and none is read or written.
    fn counts_within(&self, left: Option<u64>) -> bool {
        left.is_none_or(|left| left < self.half())
    }

    fn commit(&self, state: &mut WindowPair, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(state, cost, now);
        verdict.remaining = verdict.remaining.saturating_sub(cost);
        verdict.reset = state.reset(self.window, now);
    }

    fn charge(&self, state: &mut WindowPair, cost: u64, now: Micros) {
        *state = state.settled(self.window, now);
        state.add(cost);
    }

    /// Returns 0: a share has no capacity of its own.
    fn excess(&self, _state: &WindowPair, _now: Micros) -> u64 {
        0
    }

    fn expires(&self, state: &WindowPair) -> Micros {
        state.expires(self.window)
    }

    fn used_share(&self, state: &WindowPair) -> Option<f64> {
        let used = state.current.saturating_add(state.previous) as f64;
        Some((used / self.units as f64).min(1.0))
    }

    fn share_level(&self, left: u64) -> Option<f64> {
        self.level(left).map(|level| level as f64 / STEPS as f64)
    }

    /// Returns the capacity and the units of the shared bucket, the weight, and the window in us.
    fn numbers(&self, _now: Micros) -> Numbers {
        [self.capacity, self.units, self.weight, self.window].into()
    }

    fn period(&self) -> Micros {
        self.window
    }

    fn written(&self) -> String {
        format!("weight {}", self.weight)
    }

    fn weight(&self) -> Option<u64> {
        Some(self.weight)
    }

    fn window_name(&self) -> Option<String> {
        Some(self.window.to_string())
    }

    fn counts_until(&self, at: Micros) -> Micros {
        at - at % self.window + 2 * self.window
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        let capacity = nonzero("capacity", capacity)?;
        at_most(MAX_EXACT, capacity)?;
        let units = u128::from(self.units) * u128::from(capacity) / u128::from(self.capacity);
        let units = u64::try_from(units).unwrap_or(u64::MAX);
        Self::new(capacity, units.max(1), self.weight, self.window)
    }
}
