//! Counts the keys that occur most in a stream, in memory of a fixed size.
//!
//! The algorithm is Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
//! Streams", ICDT 2005. A new counter begins with the largest count that a key without a counter may have.
//!
//! A removal takes many of the smallest counters at once, as in D. Anderson and others, "A High-Performance Algorithm for Identifying
//! Frequent Items in Data Streams", IMC 2017. A search for the smallest counter at each new key would cost several times more.
//!
//! In a stream with many keys, most counters are removed before their keys occur again. So the names of most keys are stored only when the
//! key's count reaches three.

use std::sync::Arc;

use crate::index::{Index, Keyed};
use crate::summary::{Entry, Summary};

/// The most counters that remain after a removal of the smallest counters. Each key with a share of the stream above 1 / `COUNTERS` has a
/// counter.
pub(crate) const COUNTERS: usize = 1_024;

/// When `COUNTERS + SPARE` counters are in use, a removal frees at least `SPARE` counters.
pub(crate) const SPARE: usize = 512;
/// The most names in memory. A removal leaves at most [`COUNTERS`] counters with names, and so makes room for at least `COUNTERS / 8` new
/// names.
pub(crate) const NAMES: usize = COUNTERS + COUNTERS / 8;
/// The value of `Counter::name` if the counter has no name.
const NO_NAME: u16 = u16::MAX;
/// Keys after the first `COUNTERS` keys get their names at this count.
const MET: u64 = 3;
/// The number of counters in the first allocation.
const FIRST: usize = 64;
/// The number of cells of the index.
const CELLS: usize = 4 * COUNTERS;
/// [`SpaceSaving::largest_of_smallest`] finds counts that exceed the floor by less than `NEAR_FLOOR - 1` without sorting.
const NEAR_FLOOR: usize = 64;

/// The counters of one stream. Keys are hashes, and `N` is the type of a key's name.
#[derive(Clone, Debug)]
pub struct SpaceSaving<N> {
    counters: Vec<Counter>,
    index: Index<CELLS>,
    // The names of counters. A removed counter's name remains until its memory is needed.
    names: Vec<N>,
    // The most occurrences that a key without a counter can have.
    floor: u64,
    total: u64,
}

#[derive(Clone, Copy, Debug)]
struct Counter {
    key: u64,
    count: u64,
    error: u64,
    // The index of the counter's name in `names`.
    name: u16,
}

impl<N> Default for SpaceSaving<N> {
    fn default() -> Self {
        Self {
            counters: Vec::new(),
            index: Index::default(),
            names: Vec::new(),
            floor: 0,
            total: 0,
        }
    }
}

impl<N> SpaceSaving<N> {
    /// Adds `weight` to the count of `key`.
    ///
    /// Calls `name` at most once for each counter. The first [`COUNTERS`] keys get their name at once, and so do keys that may have more
    /// than `total / COUNTERS` units. Other keys get their name at a count of [`MET`].
    #[inline]
    pub fn add(&mut self, key: u64, weight: u64, name: impl FnOnce() -> N) {
        self.total = self.total.saturating_add(weight);
        let cell = match self.index.find(&self.counters, key) {
            Ok(place) => {
                let counter = &mut self.counters[place];
                counter.count = counter.count.saturating_add(weight);
                if counter.name == NO_NAME {
                    let Counter { count, error, .. } = *counter;
                    if count - error >= MET || self.is_large(count) {
                        self.give_name(place, name);
                    }
                }
                return;
            }
            Err(cell) => cell,
        };
        let at = self.counters.len();
        let count = self.floor.saturating_add(weight);
        self.index.set(cell, at);
        self.counters.push(Counter {
            key,
            count,
            error: self.floor,
            name: NO_NAME,
        });
        if self.is_large(count) || (self.floor == 0 && at < COUNTERS) {
            self.give_name(at, name);
        }
        if self.counters.len() == self.counters.capacity() {
            self.make_room();
        }
    }

    /// Whether a key with this count may have a share of the total above 1 / [`COUNTERS`].
    #[inline]
    const fn is_large(&self, count: u64) -> bool {
        count > self.total / COUNTERS as u64
    }

    /// The most bytes of the counters, without the memory that names point to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize =
        (COUNTERS + SPARE) * size_of::<Counter>() + Index::<CELLS>::BYTES + NAMES * size_of::<N>();

    /// The most bytes that a removal of counters allocates in addition to [`MOST_BYTES`](Self::MOST_BYTES).
    #[cfg(test)]
    pub(crate) const REMOVAL_BYTES: usize = (COUNTERS + SPARE) * size_of::<u64>();

    /// Returns the sum over all keys.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the counts as a summary. Names become shared, because many summaries have the same names.
    pub fn summary(self) -> Summary<Arc<N>> {
        let names: Vec<_> = self.names.into_iter().map(Arc::new).collect();
        let entries = self.counters.iter().map(|counter| {
            let entry = Entry {
                low: counter.count - counter.error,
                high: counter.count,
                name: names.get(usize::from(counter.name)).cloned(),
            };
            (counter.key, entry)
        });
        Summary::of(entries, self.floor, self.total)
    }

    /// Allocates memory for more counters, in steps. If `COUNTERS + SPARE` counters are in use, removes the smallest counters instead.
    #[cold]
    fn make_room(&mut self) {
        let counters = self.counters.len();
        match (COUNTERS + SPARE).checked_sub(counters) {
            None | Some(0) => self.remove_smallest(),
            Some(more) => self.counters.reserve_exact(more.min(counters.max(FIRST))),
        }
    }

    /// Adds the name of the counter at index `at`. If there is no room for another name, first removes the smallest counters. If the
    /// counter at `at` is removed, too, its name is not added.
    #[cold]
    #[inline(never)]
    fn give_name(&mut self, at: usize, name: impl FnOnce() -> N) {
        let mut place = Some(at);
        if self.names.len() == NAMES {
            self.drop_unused_names();
        }
        if self.names.len() == NAMES {
            let key = self.counters[at].key;
            self.remove_smallest();
            self.drop_unused_names();
            place = self.counters.iter().position(|it| it.key == key);
        }
        if let Some(at) = place {
            let names = self.names.len();
            if names == self.names.capacity() {
                let more = names.max(FIRST).min(NAMES - names);
                self.names.reserve_exact(more);
            }
            // The number is below `NAMES`, so the cast is exact.
            self.counters[at].name = names as u16;
            self.names.push(name());
        }
    }

    /// Removes names that no counter has.
    fn drop_unused_names(&mut self) {
        let mut counters: Vec<_> = self.counters.iter_mut().collect();
        counters.retain(|counter| counter.name != NO_NAME);
        counters.sort_unstable_by_key(|counter| counter.name);
        let (mut at, mut kept) = (0, 0);
        self.names.retain(|_| {
            let owner = counters.get_mut(kept);
            let owner = owner.filter(|counter| usize::from(counter.name) == at);
            at += 1;
            let is_used = owner.is_some();
            if let Some(counter) = owner {
                // `kept` is at most the old index of the name, so the cast is exact.
                counter.name = kept as u16;
                kept += 1;
            }
            is_used
        });
    }

    /// Removes the smallest counters, so that at most [`COUNTERS`] counters remain. There must be more than [`COUNTERS`] counters.
    ///
    /// The excess of a counter over the floor consists of units that were added to this counter. When the floor rises by n, the excess of
    /// more than [`COUNTERS`] counters falls by n each. So the floor times [`COUNTERS`] never exceeds the total.
    #[cold]
    fn remove_smallest(&mut self) {
        let floor = self.largest_of_smallest(self.counters.len() - COUNTERS - 1);
        self.floor = floor;
        self.counters.retain(|counter| counter.count > floor);
        self.index.rebuild(&self.counters);
    }

    /// Returns the count at index `before` of all counts in ascending order.
    fn largest_of_smallest(&self, before: usize) -> u64 {
        // A counter's height is its count minus the floor. Most counters are new and have small heights. So the counters of each small
        // height are counted first, because that is faster than sorting.
        let mut by_height = [0_u16; NEAR_FLOOR];
        for counter in &self.counters {
            let height = counter.count.saturating_sub(self.floor);
            by_height[height.min(NEAR_FLOOR as u64 - 1) as usize] += 1;
        }
        let mut passed = 0;
        for (height, counters) in by_height[..NEAR_FLOOR - 1].iter().enumerate() {
            passed += usize::from(*counters);
            if passed > before {
                return self.floor + height as u64;
            }
        }
        let mut counts: Vec<u64> = self.counters.iter().map(|it| it.count).collect();
        *counts.select_nth_unstable(before).1
    }
}

impl Keyed for Counter {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_come_once_go_together() {
        for weight in [1, 1_000] {
            let mut table = SpaceSaving::default();
            for key in 0..20_000_u64 {
                table.add(key, weight, || ());
                assert!(table.counters.len() < COUNTERS + SPARE);
            }
            assert_eq!(table.floor, 20_000 / (COUNTERS + SPARE) as u64 * weight);
        }
    }

    #[test]
    fn names_and_memory_are_bounded_if_every_key_comes_twice() {
        let mut table = SpaceSaving::default();
        for key in 0..20_000_u64 {
            // Distinct heights, so that a removal removes only the necessary number.
            table.add(key, 1 + key % 7_919, || key);
            table.add(key, 1, || key);
            for counter in &table.counters {
                let name = table.names.get(usize::from(counter.name));
                assert!(name.is_none_or(|name| *name == counter.key), "{name:?}");
            }
            assert!(table.counters.len() < COUNTERS + SPARE);
            assert!(table.counters.capacity() <= COUNTERS + SPARE);
            assert!(table.names.capacity() <= NAMES, "after {key}");
        }
        assert!(table.floor * COUNTERS as u64 <= table.total);
    }
}
