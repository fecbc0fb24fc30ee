//! `sliding_window_log`: the exact sliding window, one entry per admitted request.
//!
//! Admits cost c when the units admitted in (now − window, now] plus c are at most the limit. Two requests in one microsecond are two
//! entries. Promise: at most the limit in any window. Each key has up to `limit` entries, so choose this algorithm for small limits.
//! `lua/sliding_window_log.lua` computes the same results.

use std::collections::VecDeque;

use crate::numbers::{MAX_EXACT, at_most, window_quota, written_span};
use crate::{Algorithm, Micros, Mode, Numbers, QuotaError, Verdict};

/// The most entries of one key, which take 16 MB in memory, or 10 MB in Redis.
const LARGEST: u64 = 1_000_000;

/// The capacity, in entries, above which a log releases memory that it no longer needs.
const LARGE: usize = 1_024;

/// The admitted requests, oldest first.
///
/// An entry's `extra` is the sum of (units - 1) over this entry and all entries before it. So the units of a range of entries are the
/// difference of two numbers, and need no loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    entries: VecDeque<Entry>,
    // The `extra` of the last dropped entry.
    before: u64,
}

/// One admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    stamp: Micros,
    extra: u64,
}

impl Stamps {
    /// Returns the newest stamp.
    pub fn last(&self) -> Option<Micros> {
        self.entries.back().map(|last| last.stamp)
    }

    /// Returns the units of all entries, including entries that have left the window.
    pub fn all_units(&self) -> u64 {
        self.units(0, self.entries.len())
    }

    /// Returns the `extra` of the entry before this one.
    fn extra_before(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            Some(index) => self.entries[index].extra,
            None => self.before,
        }
    }

    /// Returns the units of the entries from index `first` to index `end - 1`.
    fn units(&self, first: usize, end: usize) -> u64 {
        (end - first) as u64 + self.extra_before(end) - self.extra_before(first)
    }

    fn push(&mut self, stamp: Micros, units: u64) {
        let extra = (self.extra_before(self.entries.len()) + units - 1).min(MAX_EXACT);
        self.entries.push_back(Entry { stamp, extra });
    }

    /// Drops the first `count` entries. If no entry is left, the `extra` starts at 0 again.
    fn drop_first(&mut self, count: usize) {
        self.before = match count == self.entries.len() {
            true => 0,
            false => self.extra_before(count),
        };
        self.entries.drain(..count);
        if self.entries.capacity() > LARGE.max(4 * self.entries.len()) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    /// Replaces all entries that are later than `now` by one entry at `now`, which has the sum of their units. `lua/sliding_window_log.lua`
    /// does the same without a loop over the entries.
    fn gather(&mut self, now: Micros) {
        let moved = self.entries.partition_point(|entry| entry.stamp <= now);
        let units = self.units(moved, self.entries.len());
        self.entries.truncate(moved);
        if moved == 0 {
            self.before = 0;
        }
        self.push(now, units);
    }

    /// Returns the stamp of the first entry at which the sum of units, counted from the entry `first`, reaches `units`.
    fn stamp_after(&self, first: usize, units: u64) -> Micros {
        let (mut low, mut high) = (first, self.entries.len() - 1);
        while low < high {
            let middle = low.midpoint(high);
            if self.units(first, middle + 1) >= units {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.entries[low].stamp
    }
}

impl FromIterator<(Micros, u64)> for Stamps {
    /// Makes a log of stamps, oldest first, each with its units.
    fn from_iter<T: IntoIterator<Item = (Micros, u64)>>(entries: T) -> Self {
        let mut stamps = Self::default();
        for (stamp, units) in entries {
            stamps.push(stamp, units);
        }
        stamps
    }
}

/// The quota of a sliding window log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingWindowLog {
    limit: u64,
    window: Micros,
}

impl SlidingWindowLog {
    /// Returns a quota of at most `limit` in any `window`.
    ///
    /// # Errors
    ///
    /// The limit or the window is 0, or either of them is too large.
    pub fn new(limit: u64, window: Micros) -> Result<Self, QuotaError> {
        window_quota(limit, window)?;
        at_most(LARGEST, limit)?;
        Ok(Self { limit, window })
    }

    /// Returns the number of entries that have left the window. Only a charge drops these entries. If the clock steps back before the next
    /// charge, they count again.
    fn dead(&self, stamps: &Stamps, now: Micros) -> usize {
        let is_dead = |entry: &Entry| entry.stamp + self.window <= now;
        stamps.entries.partition_point(is_dead)
    }

    /// Returns the time until a stamp leaves the window, in us.
    const fn leaves(&self, stamp: Micros, now: Micros) -> Micros {
        stamp + self.window - now
    }
}

impl Algorithm for SlidingWindowLog {
    type State = Stamps;

    const MODES: &'static [Mode] = &[Mode::Exact, Mode::Leased, Mode::Local];
    const IS_GRADUAL: bool = true;

    fn capacity(&self) -> u64 {
        self.limit
    }

    fn check(&self, stamps: &mut Stamps, cost: u64, now: Micros) -> Verdict {
        let ahead = |last: &Entry| last.stamp > now + self.window;
        if stamps.entries.back().is_some_and(ahead) {
            stamps.gather(now);
        }
        let (dead, count) = (self.dead(stamps, now), stamps.entries.len());
        let live = stamps.units(dead, count);
        let last = stamps.entries.back().filter(|_| dead < count);
        let remaining = self.limit.saturating_sub(live);
        let allowed = cost <= remaining;
        Verdict {
            allowed,
            remaining,
            reset: last.map_or(0, |last| self.leaves(last.stamp, now)),
            retry_after: if allowed {
                0
            } else {
                // The cost fits when the oldest `missing` units have left the window. A cost within the limit never needs more units than
                // the log has.
                let missing = live + cost - self.limit;
                self.leaves(stamps.stamp_after(dead, missing), now)
            },
            ..Verdict::default()
        }
    }

    fn commit(&self, stamps: &mut Stamps, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(stamps, cost, now);
        verdict.remaining = verdict.remaining.saturating_sub(cost);
        verdict.reset = stamps.last().map_or(0, |last| self.leaves(last, now));
    }

    fn charge(&self, stamps: &mut Stamps, cost: u64, now: Micros) {
        stamps.drop_first(self.dead(stamps, now));
        // Stamps never decrease: after the clock stepped back, entries get the newest stamp until the clock catches up.
        let stamp = stamps.last().map_or(now, |last| now.max(last));
        // No limit is above `LARGEST`, so an entry of `LARGEST` units already refuses all other requests until it leaves the window.
        stamps.push(stamp, cost.min(LARGEST));
    }

    fn excess(&self, stamps: &Stamps, now: Micros) -> u64 {
        let live = stamps.units(self.dead(stamps, now), stamps.entries.len());
        live.saturating_sub(self.limit)
    }

    fn expires(&self, stamps: &Stamps) -> Micros {
        stamps
            .entries
            .back()
            .map_or(0, |last| last.stamp + self.window)
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

    /// Returns the window's length, because the added charge leaves the window last.
    fn reset_with(&self, _reset: Micros, _units: u64) -> Micros {
        self.window
    }

    fn with_capacity(&self, capacity: u64) -> Result<Self, QuotaError> {
        Self::new(capacity, self.window)
    }
}
