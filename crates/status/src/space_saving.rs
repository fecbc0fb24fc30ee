//! The keys that occur most in a stream, in memory of a fixed size.
//!
//! The algorithm is Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
//! Data Streams", ICDT 2005. A key that has no counter begins with the largest count that a key without a counter may have.
//! Counters are removed many at a time, the smallest ones, as D. Anderson and others do in "A High-Performance Algorithm for
//! Identifying Frequent Items in Data Streams", IMC 2017: to find the smallest counter for each new key costs several times more.

use std::sync::Arc;

use crate::summary::{Entry, Summary};

/// Keys that are counted at least. A key that makes up more than one in so many of the whole stream has a counter.
pub(crate) const COUNTERS: usize = 1_024;

/// Counters that are removed at a time, or more.
pub(crate) const SPARE: usize = 320;
/// Slots of the index: more than twice the counters, so that a search is short.
const SLOTS: usize = 4 * COUNTERS;
/// A slot of the index that leads to no counter.
const EMPTY: u16 = u16::MAX;

/// The counters of one stream. Keys are hashes; `N` is the name that belongs to a key.
#[derive(Debug)]
pub struct SpaceSaving<N> {
    counters: Vec<Counter<N>>,
    // From a key to its counter; linear probing. Made with the first key.
    index: Vec<u16>,
    // No key without a counter occurred more often.
    floor: u64,
    total: u64,
}

#[derive(Debug)]
struct Counter<N> {
    key: u64,
    count: u64,
    error: u64,
    name: N,
}

impl<N> Default for SpaceSaving<N> {
    fn default() -> Self {
        Self {
            counters: Vec::new(),
            index: Vec::new(),
            floor: 0,
            total: 0,
        }
    }
}

impl<N> SpaceSaving<N> {
    /// Adds `weight` to what is counted for `key`. `name` is asked only if the key has no counter yet.
    pub fn add(&mut self, key: u64, weight: u64, name: impl FnOnce() -> N) {
        self.total = self.total.saturating_add(weight);
        if self.index.is_empty() {
            self.index.resize(SLOTS, EMPTY);
        }
        let slot = self.find(key);
        if let Some(counter) = self.counters.get_mut(usize::from(self.index[slot])) {
            counter.count = counter.count.saturating_add(weight);
            return;
        }
        // Below `COUNTERS + SPARE`, which a u16 holds.
        self.index[slot] = self.counters.len() as u16;
        self.counters.push(Counter {
            key,
            count: self.floor.saturating_add(weight),
            error: self.floor,
            name: name(),
        });
        if self.counters.len() == COUNTERS + SPARE {
            self.remove_smallest();
        }
    }

    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize =
        (COUNTERS + SPARE) * (size_of::<Counter<N>>() + size_of::<u64>()) + SLOTS * 2;

    /// What was added for all keys.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Removes the [`SPARE`] smallest counters, and all that are no larger than the largest of these.
    ///
    /// Each of the more than [`COUNTERS`] counters that were at least as large is above the old floor by what the floor rises, and
    /// counters are above the floor by what was added since. So the floor times `COUNTERS` never exceeds the total.
    #[cold]
    fn remove_smallest(&mut self) {
        let mut counts: Vec<u64> = self.counters.iter().map(|it| it.count).collect();
        let (_, floor, _) = counts.select_nth_unstable(SPARE - 1);
        let floor = *floor;
        self.floor = floor;
        self.counters.retain(|counter| counter.count > floor);
        self.index.fill(EMPTY);
        for at in 0..self.counters.len() {
            let slot = self.find(self.counters[at].key);
            self.index[slot] = at as u16;
        }
    }

    /// The slot of this key, or the empty one where it belongs.
    fn find(&self, key: u64) -> usize {
        let mut slot = home(key);
        loop {
            let at = self.index[slot];
            if at == EMPTY || self.counters[usize::from(at)].key == key {
                return slot;
            }
            slot = (slot + 1) % SLOTS;
        }
    }
}

impl<N: Clone> SpaceSaving<N> {
    /// What is known now. Names are shared from here on: many summaries have the same.
    pub fn summary(&self) -> Summary<Arc<N>> {
        let entries = self.counters.iter().map(|counter| {
            let entry = Entry {
                low: counter.count - counter.error,
                high: counter.count,
                name: Some(Arc::new(counter.name.clone())),
            };
            (counter.key, entry)
        });
        Summary::of(entries, self.floor, self.total)
    }
}

/// Where a key's search begins.
fn home(key: u64) -> usize {
    // The golden ratio spreads keys that differ in few bits.
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - SLOTS.trailing_zeros())) as usize
}
