//! `sliding_window_log`: the exact sliding window, one stamp per unit admitted.
//!
//! Admits cost c when what was admitted in (now − window, now] plus c is at most the limit; two in one microsecond are
//! two. Promise: at most the limit in any window. It keeps up to `limit` stamps a key, so choose it for small limits.
//! The other writing of this file is `lua/sliding_window_log.lua`.

use std::collections::VecDeque;

use crate::quota::{at_most, window_quota};
use crate::{Algorithm, Micros, QuotaError, Verdict};

/// The most stamps that one key may hold: 8 MB in memory, 10 MB in Redis.
const LARGEST: u64 = 1_000_000;

/// When each unit was admitted, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps(pub VecDeque<Micros>);

/// The quota of a sliding window log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindowLog {
    limit: u64,
    window: Micros,
}

impl SlidingWindowLog {
    /// At most `limit` in any `window`.
    pub fn new(limit: u64, window: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, window)?;
        at_most(LARGEST, limit)?;
        Ok(Self { limit, window })
    }

    /// The window's length in us.
    pub const fn window(&self) -> Micros {
        self.window
    }

    /// What the script takes: limit, and window in us.
    pub const fn numbers(&self) -> [u64; 2] {
        [self.limit, self.window]
    }

    /// How many of the oldest stamps have left the window. They are dropped when something is charged, and not before:
    /// after a step back of the clock they count again.
    fn dead(&self, stamps: &VecDeque<Micros>, now: Micros) -> usize {
        stamps.partition_point(|stamp| stamp + self.window <= now)
    }

    /// How long until a stamp leaves the window, in us.
    const fn leaves(&self, stamp: Micros, now: Micros) -> Micros {
        stamp + self.window - now
    }
}

impl Algorithm for SlidingWindowLog {
    type State = Stamps;

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, Stamps(stamps): &mut Stamps, cost: u64, now: Micros) -> Verdict {
        if stamps.back().is_some_and(|last| *last > now + self.window) {
            stamps.iter_mut().for_each(|stamp| *stamp = now.min(*stamp));
        }
        let dead = self.dead(stamps, now);
        let live = (stamps.len() - dead) as u64;
        let last = stamps.back().filter(|_| live > 0);
        let remaining = self.limit.saturating_sub(live);
        let allowed = cost <= remaining;
        // As many of the oldest must leave as do not fit; a cost within the limit never needs more than there are.
        let missing = || (live + cost - self.limit) as usize;
        Verdict {
            allowed,
            settling: false,
            remaining,
            reset: last.map_or(0, |last| self.leaves(*last, now)),
            retry_after: if allowed {
                0
            } else {
                self.leaves(stamps[dead + missing() - 1], now)
            },
            delay: 0,
        }
    }

    fn commit(&self, Stamps(stamps): &mut Stamps, cost: u64, now: Micros, verdict: &mut Verdict) {
        stamps.drain(..self.dead(stamps, now));
        // Stamps never decrease: after a step back of the clock the newest one is used again until it catches up.
        let stamp = stamps.back().map_or(now, |last| now.max(*last));
        stamps.extend(std::iter::repeat_n(stamp, cost as usize));
        verdict.remaining -= cost;
        verdict.reset = self.leaves(stamp, now);
    }

    fn give_back(&self, Stamps(stamps): &mut Stamps, cost: u64, receipt: Micros, _now: Micros) {
        let stamp = receipt.saturating_sub(self.window);
        let first = stamps.partition_point(|other| *other < stamp);
        let end = stamps.partition_point(|other| *other <= stamp);
        let count = (end - first).min(cost as usize);
        stamps.drain(end - count..end);
    }

    fn expires(&self, Stamps(stamps): &Stamps) -> Micros {
        stamps.back().map_or(0, |last| last + self.window)
    }

    fn divided(&self, parts: u64) -> Self {
        Self {
            limit: (self.limit / parts.max(1)).max(1),
            ..*self
        }
    }
}
