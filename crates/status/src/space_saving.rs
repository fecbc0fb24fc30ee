//! The keys that occur most in a stream, in memory of a fixed size.
//!
//! The algorithm is Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
//! Data Streams", ICDT 2005. A key that has no counter begins with the largest count that a key without a counter may have.
//! Counters are removed many at a time, the smallest ones, as D. Anderson and others do in "A High-Performance Algorithm for
//! Identifying Frequent Items in Data Streams", IMC 2017: to find the smallest counter for each new key costs several times more.
//!
//! Most keys of a stream that has many are gone before they come again. So a key of such a stream gets its name when it was met three times.

use std::sync::Arc;

use crate::summary::{Entry, Summary};

/// Keys that are counted at least. A key that makes up more than one in so many of the whole stream has a counter.
pub(crate) const COUNTERS: usize = 1_024;

/// Further counters. All are removed at a time.
pub(crate) const SPARE: usize = 512;
/// Counters that have a name at most. A removal leaves [`COUNTERS`], so that it makes place for a quarter as many names.
pub(crate) const NAMES: usize = COUNTERS + COUNTERS / 4;
/// How much is counted of a key before it gets its name, where there are many keys.
const MET: u64 = 3;
/// Counters for which memory is taken first.
const FIRST: usize = 64;
/// Slots of the index: more than twice the counters, so that a search is short.
const SLOTS: usize = 4 * COUNTERS;
/// A slot of the index that leads to no counter.
const EMPTY: u16 = u16::MAX;
/// Counts this far above the floor are found without sorting.
const NEAR_FLOOR: usize = 64;

/// From a key to its counter; linear probing.
type Index = [u16; SLOTS];

/// The counters of one stream. Keys are hashes; `N` is the name that belongs to a key.
#[derive(Debug)]
pub struct SpaceSaving<N> {
    counters: Vec<Counter<N>>,
    // Made with the first key.
    index: Option<Box<Index>>,
    // No key without a counter occurred more often.
    floor: u64,
    total: u64,
    // Counters that have a name.
    named: usize,
}

#[derive(Debug)]
struct Counter<N> {
    key: u64,
    count: u64,
    error: u64,
    name: Option<N>,
}

impl<N> Default for SpaceSaving<N> {
    fn default() -> Self {
        Self {
            counters: Vec::new(),
            index: None,
            floor: 0,
            total: 0,
            named: 0,
        }
    }
}

impl<N> SpaceSaving<N> {
    /// Adds `weight` to what is counted for `key`.
    ///
    /// `name` is asked once per counter: at once of the first [`COUNTERS`] keys, and of a key with a weight above
    /// `total / COUNTERS`; of others when [`MET`] were counted.
    #[inline]
    pub fn add(&mut self, key: u64, weight: u64, name: impl FnOnce() -> N) {
        self.total = self.total.saturating_add(weight);
        let index = self.index.get_or_insert_with(empty_index);
        let slot = find(index, &self.counters, key);
        let at = usize::from(index[slot]);
        if let Some(counter) = self.counters.get_mut(at) {
            counter.count = counter.count.saturating_add(weight);
            if counter.name.is_none() && counter.count - counter.error >= MET {
                self.give_name(at, name);
            }
            return;
        }
        let at = self.counters.len();
        // Below `COUNTERS + SPARE`, which a u16 holds.
        index[slot] = at as u16;
        if at == self.counters.capacity() {
            self.grow();
        }
        self.counters.push(Counter {
            key,
            count: self.floor.saturating_add(weight),
            error: self.floor,
            name: None,
        });
        let is_large = weight.saturating_mul(COUNTERS as u64) > self.total;
        if is_large || (self.floor == 0 && at < COUNTERS) {
            self.give_name(at, name);
        }
        if self.counters.len() == COUNTERS + SPARE {
            self.remove_smallest();
        }
    }

    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize =
        (COUNTERS + SPARE) * size_of::<Counter<N>>() + size_of::<Index>();

    /// The bytes that it takes while it removes counters, besides.
    #[cfg(test)]
    pub(crate) const REMOVAL_BYTES: usize = (COUNTERS + SPARE) * size_of::<u64>();

    /// What was added for all keys.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Memory is taken as it is needed, and no more than that.
    #[cold]
    fn grow(&mut self) {
        let counters = self.counters.len();
        let more = counters.max(FIRST).min(COUNTERS + SPARE - counters);
        self.counters.reserve_exact(more);
    }

    /// Names a counter, unless it goes with the smallest to make place for its name.
    #[cold]
    #[inline(never)]
    fn give_name(&mut self, at: usize, name: impl FnOnce() -> N) {
        let mut place = Some(at);
        if self.named >= NAMES {
            let key = self.counters[at].key;
            self.remove_smallest();
            place = self.counters.iter().position(|it| it.key == key);
        }
        if let Some(at) = place {
            self.counters[at].name = Some(name());
            self.named += 1;
        }
    }

    /// Removes the smallest of more than [`COUNTERS`] counters, so many that at most [`COUNTERS`] stay.
    ///
    /// Each of the more than [`COUNTERS`] counters that were at least as large is above the old floor by what the floor rises, and
    /// counters are above the floor by what was added since. So the floor times `COUNTERS` never exceeds the total.
    #[cold]
    fn remove_smallest(&mut self) {
        let floor = self.largest_of_smallest(self.counters.len() - COUNTERS - 1);
        self.floor = floor;
        self.counters.retain(|counter| counter.count > floor);
        let named = self.counters.iter().filter(|it| it.name.is_some());
        self.named = named.count();
        if let Some(index) = &mut self.index {
            index.fill(EMPTY);
            for (at, counter) in self.counters.iter().enumerate() {
                let mut slot = home(counter.key);
                while index[slot] != EMPTY {
                    slot = (slot + 1) % SLOTS;
                }
                index[slot] = at as u16;
            }
        }
    }

    /// The count with so many before it, in the order of size.
    fn largest_of_smallest(&self, before: usize) -> u64 {
        // Most are new: they are as far above the floor as one request, or a few.
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

impl<N: Clone> SpaceSaving<N> {
    /// What is known now. Names are shared from here on: many summaries have the same.
    pub fn summary(&self) -> Summary<Arc<N>> {
        let entries = self.counters.iter().map(|counter| {
            let entry = Entry {
                low: counter.count - counter.error,
                high: counter.count,
                name: counter.name.clone().map(Arc::new),
            };
            (counter.key, entry)
        });
        Summary::of(entries, self.floor, self.total)
    }
}

#[cold]
fn empty_index() -> Box<Index> {
    Box::new([EMPTY; SLOTS])
}

/// The slot of this key, or the empty one where it belongs.
#[inline]
fn find<N>(index: &Index, counters: &[Counter<N>], key: u64) -> usize {
    let mut slot = home(key);
    loop {
        let known = counters.get(usize::from(index[slot]));
        if known.is_none_or(|known| known.key == key) {
            return slot;
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Where a key's search begins.
#[inline]
const fn home(key: u64) -> usize {
    // The golden ratio spreads keys that differ in few bits.
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - SLOTS.trailing_zeros())) as usize
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
            // Distinct heights, so that a removal takes no more than it must.
            table.add(key, 1 + key % 7_919, || ());
            table.add(key, 1, || ());
            let named = table.counters.iter().filter(|it| it.name.is_some()).count();
            assert_eq!(named, table.named);
            assert!(named <= NAMES, "{named} after {key}");
            assert!(table.counters.len() < COUNTERS + SPARE);
            assert!(table.counters.capacity() <= COUNTERS + SPARE);
        }
        assert!(table.floor * COUNTERS as u64 <= table.total);
    }
}
