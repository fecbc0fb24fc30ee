//! What this gateway has charged and given back: no refusal holds that may have been for the sake of it.
//!
//! A request over several slots of a Redis Cluster may be charged at one slot, and refused at the next. Then it is given back at
//! the first. Who was refused there meanwhile would be admitted now. What other gateways give back is seen within a second, as
//! every change is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::DecisionCache;
use crate::charge::LimitKey;

/// Keys share these: a refusal that is forgotten for another key's sake costs a question to Redis.
const PLACES: usize = 64;

/// When something was last given back.
#[derive(Debug)]
pub(super) struct GivenBack {
    start: Instant,
    // In us since the start; 0: never.
    last: [AtomicU64; PLACES],
}

impl Default for GivenBack {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            last: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl GivenBack {
    /// Whether a call that was sent then may have found what was given back to a key in this row.
    pub(super) fn concerns(&self, sent: Instant, row: usize) -> bool {
        let last = self.last[row % PLACES].load(Ordering::Relaxed);
        last != 0 && self.since_start(sent) <= last
    }

    fn note(&self, row: usize, now: Instant) {
        let now = self.since_start(now).max(1);
        self.last[row % PLACES].fetch_max(now, Ordering::Relaxed);
    }

    fn since_start(&self, at: Instant) -> u64 {
        super::micros(at.saturating_duration_since(self.start))
    }
}

impl DecisionCache {
    /// Notes that something was given back to a key by `now`. A refusal of a call that was sent before does not hold, whether it is
    /// known already or still to come.
    pub(in super::super) fn given_back(&self, key: &LimitKey, now: Instant) {
        let row = self.rows.index(key);
        self.given_back.note(row, now);
        // Whoever notes a refusal from here on sees that.
        let mut row = self.rows.at(row);
        for seen in row.iter_mut().flatten().filter(|seen| seen.key == *key) {
            seen.holds &= seen.sent > now;
        }
    }
}
