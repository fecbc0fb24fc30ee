//! What several streams say together about the keys that occur most.
//!
//! Summaries can be merged without losing their bound: P. K. Agarwal and others, "Mergeable Summaries", PODS 2012. Of a summary of m
//! counters and n units each key is known to n/m, however often it was merged.

use std::cmp::Reverse;

/// What is known of the keys of a stream.
#[derive(Clone, Debug)]
pub struct Summary<N> {
    // By key.
    entries: Vec<(u64, Entry<N>)>,
    // No key without an entry occurred more often.
    floor: u64,
    total: u64,
}

/// What is known of one key: it occurred `low` times at least, and `high` times at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<N> {
    /// How often it occurred at least.
    pub low: u64,
    /// How often it occurred at most.
    pub high: u64,
    /// Its name, if it is still known.
    pub name: Option<N>,
}

impl<N> Default for Summary<N> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            floor: 0,
            total: 0,
        }
    }
}

impl<N> Summary<N> {
    /// Of these keys, where no other key occurred more than `floor` times, and all together `total` times.
    pub fn of(entries: impl IntoIterator<Item = (u64, Entry<N>)>, floor: u64, total: u64) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let mut summary = Self {
            entries,
            floor,
            total,
        };
        summary.sharpen();
        summary
    }

    /// What was added for all keys.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// No key that is not listed occurred more often.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// What is known of this key, if it is listed.
    pub fn get(&self, key: u64) -> Option<&Entry<N>> {
        let found = self.entries.binary_search_by_key(&key, |(key, _)| *key);
        found.ok().map(|at| &self.entries[at].1)
    }

    /// Adds what another stream says.
    pub fn merge(&mut self, other: Self) {
        let (floor, theirs) = (self.floor, other.floor);
        let own = std::mem::take(&mut self.entries);
        let mut own = own.into_iter().peekable();
        let mut others = other.entries.into_iter().peekable();
        // Both are in the order of keys. Whoever does not list a key has seen it as often as its floor at most.
        loop {
            let key = match (own.peek(), others.peek()) {
                (Some((one, _)), Some((other, _))) => *one.min(other),
                (Some((key, _)), None) | (None, Some((key, _))) => *key,
                (None, None) => break,
            };
            let unlisted = |floor| Entry {
                low: 0,
                high: floor,
                name: None,
            };
            let of_own = own.next_if(|(own, _)| *own == key);
            let of_own = of_own.map_or_else(|| unlisted(floor), |(_, entry)| entry);
            let of_other = others.next_if(|(other, _)| *other == key);
            let of_other = of_other.map_or_else(|| unlisted(theirs), |(_, entry)| entry);
            let entry = Entry {
                low: of_own.low.saturating_add(of_other.low),
                high: of_own.high.saturating_add(of_other.high),
                name: of_own.name.or(of_other.name),
            };
            self.entries.push((key, entry));
        }
        self.floor = floor.saturating_add(theirs);
        self.total = self.total.saturating_add(other.total);
        self.sharpen();
    }

    /// Keeps fewer than `counters` keys, those that occurred most.
    pub fn prune(&mut self, counters: usize) {
        if let Some(bound) = self.high(counters.saturating_sub(1)) {
            // All that go occurred no more often than this; of those that stay, each loses as much of what is certain.
            self.floor = self.floor.max(bound);
            self.entries.retain(|(_, entry)| entry.high > bound);
        }
        self.entries.shrink_to_fit();
    }

    /// Keeps names for only so many keys: those that occurred most.
    pub(crate) fn drop_names(&mut self, most: usize) {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_unstable_by_key(|at| Reverse(self.entries[*at].1.high));
        for at in order.into_iter().skip(most) {
            self.entries[at].1.name = None;
        }
    }

    /// The keys that occurred most for certain, each with its entry.
    pub fn top(&self, most: usize) -> Vec<(u64, &Entry<N>)> {
        let entries = self.entries.iter();
        let mut sorted: Vec<_> = entries.map(|(key, entry)| (*key, entry)).collect();
        sorted.sort_unstable_by(|(key, one), (other_key, other)| {
            let order = other.low.cmp(&one.low).then(other.high.cmp(&one.high));
            order.then(key.cmp(other_key))
        });
        sorted.truncate(most);
        sorted
    }

    /// How often the key with so many before it occurred at most.
    fn high(&self, before: usize) -> Option<u64> {
        let mut highs: Vec<u64> = self.entries.iter().map(|(_, it)| it.high).collect();
        if before >= highs.len() {
            return None;
        }
        let (_, high, _) = highs.select_nth_unstable_by(before, |one, other| other.cmp(one));
        Some(*high)
    }

    /// A key with an entry occurred at least as often as its entry is above the floor.
    fn sharpen(&mut self) {
        for (_, entry) in &mut self.entries {
            entry.low = entry.low.max(entry.high.saturating_sub(self.floor));
        }
    }
}
