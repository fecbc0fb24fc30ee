//! The keys that occur most in a stream, in memory of a fixed size.
//!
//! The algorithm is Space-Saving: A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
//! Data Streams", ICDT 2005. A key that has no counter takes over the smallest one, with its count as its possible error.

use std::sync::Arc;

use crate::summary::{Entry, Summary};

/// Keys that may be counted at once. A key that makes up more than one in so many of the whole stream has a counter.
pub(crate) const COUNTERS: usize = 1_024;

/// Slots of the index: twice the counters, so that a search is short.
const SLOTS: usize = 2 * COUNTERS;
/// A slot of the index that leads to no counter.
const EMPTY: u16 = u16::MAX;

/// The counters of one stream. Keys are hashes; `N` is the name that belongs to a key.
#[derive(Debug)]
pub struct SpaceSaving<N> {
    counters: Vec<Counter<N>>,
    // From a key to its counter; linear probing. Made with the first key.
    index: Vec<u16>,
    // Once all counters are in use: all of them by the count that each had when it was last looked at, the smallest first.
    // A counter that grows is not moved before it reaches the top, so a key that has one costs no more than the search.
    heap: Vec<Seen>,
    total: u64,
}

#[derive(Debug)]
struct Counter<N> {
    key: u64,
    count: u64,
    error: u64,
    name: N,
}

/// A counter, and a count that it had: never more than it has.
#[derive(Clone, Copy, Debug)]
struct Seen {
    count: u64,
    at: u16,
}

impl<N> Default for SpaceSaving<N> {
    fn default() -> Self {
        Self {
            counters: Vec::new(),
            index: Vec::new(),
            heap: Vec::new(),
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
        let name = name();
        if self.counters.len() < COUNTERS {
            // Below `COUNTERS`, which a u16 holds.
            self.index[slot] = self.counters.len() as u16;
            self.counters.push(Counter {
                key,
                count: weight,
                error: 0,
                name,
            });
            return;
        }
        let at = self.smallest();
        let smallest = self.counters[usize::from(at)].count;
        self.forget(self.counters[usize::from(at)].key);
        let slot = self.find(key);
        self.index[slot] = at;
        let count = smallest.saturating_add(weight);
        self.counters[usize::from(at)] = Counter {
            key,
            count,
            error: smallest,
            name,
        };
        self.heap[0].count = count;
        self.sift_down(0);
    }

    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize =
        COUNTERS * (size_of::<Counter<N>>() + size_of::<Seen>()) + SLOTS * 2;

    /// What was added for all keys.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The counter with the smallest count, which is then at the top of the heap.
    fn smallest(&mut self) -> u16 {
        if self.heap.is_empty() {
            let counters = (0..).zip(&self.counters);
            let seen = counters.map(|(at, counter)| Seen {
                count: counter.count,
                at,
            });
            self.heap = seen.collect();
            for at in (0..COUNTERS / 2).rev() {
                self.sift_down(at);
            }
        }
        loop {
            let Seen { count, at } = self.heap[0];
            let now = self.counters[usize::from(at)].count;
            if now == count {
                return at;
            }
            self.heap[0].count = now;
            self.sift_down(0);
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        let moved = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].count < self.heap[child].count {
                child += 1;
            }
            if self.heap[child].count >= moved.count {
                break;
            }
            self.heap[at] = self.heap[child];
            at = child;
        }
        self.heap[at] = moved;
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

    /// Takes a key out of the index. What probing put behind it moves up.
    fn forget(&mut self, key: u64) {
        let mut hole = self.find(key);
        let mut next = hole;
        loop {
            next = (next + 1) % SLOTS;
            let at = self.index[next];
            if at == EMPTY {
                break;
            }
            let home = home(self.counters[usize::from(at)].key);
            // It may move if its home is not between the hole and where it is.
            if (next + SLOTS - home) % SLOTS >= (next + SLOTS - hole) % SLOTS {
                self.index[hole] = at;
                hole = next;
            }
        }
        self.index[hole] = EMPTY;
    }
}

impl<N: Clone> SpaceSaving<N> {
    /// What is known now. Names are shared from here on: many summaries have the same.
    pub fn summary(&self) -> Summary<Arc<N>> {
        let counters = self.counters.iter();
        let floor = match self.counters.len() {
            COUNTERS => counters.clone().map(|it| it.count).min(),
            _ => None,
        };
        let entries = counters.map(|counter| {
            let entry = Entry {
                low: counter.count - counter.error,
                high: counter.count,
                name: Some(Arc::new(counter.name.clone())),
            };
            (counter.key, entry)
        });
        Summary::of(entries, floor.unwrap_or_default(), self.total)
    }
}

/// Where a key's search begins.
fn home(key: u64) -> usize {
    // The golden ratio spreads keys that differ in few bits.
    let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - SLOTS.trailing_zeros())) as usize
}
