//! Merges counts of the most frequent keys over several streams.
//!
//! A merge keeps the bound of the error (P. K. Agarwal and others, "Mergeable Summaries", PODS 2012). With m counters and n units, the
//! error of each key is at most n/m, after any number of merges.

use std::cmp::Reverse;

/// The counts of the most frequent keys of a stream.
#[derive(Clone, Debug)]
pub struct Summary<N> {
    // Sorted by key.
    entries: Vec<(u64, Entry<N>)>,
    // The most occurrences that a key without an entry can have.
    floor: u64,
    total: u64,
}

/// The bounds of one key's count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<N> {
    /// The lower bound.
    pub low: u64,
    /// The upper bound.
    pub high: u64,
    /// The name of the key. `None` if no name is stored.
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
    /// Returns a summary of these keys. Other keys occurred at most `floor` times each. `total` is the sum over all keys.
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

    /// Returns the sum of the counts of all keys, including keys without an entry.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the upper bound for the count of each key that is not listed.
    pub const fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the bounds of this key, if it is listed.
    pub fn get(&self, key: u64) -> Option<&Entry<N>> {
        let place = self.entries.binary_search_by_key(&key, |(key, _)| *key);
        place.ok().map(|at| &self.entries[at].1)
    }

    /// Adds the counts of another stream.
    pub fn merge(&mut self, other: Self) {
        let (floor, theirs) = (self.floor, other.floor);
        let mut own = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut others = other.entries.into_iter().peekable();
        // Both lists are in the order of keys. If a key has no entry in one list, the key occurred at most `floor` times in the stream of
        // that list.
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

    /// Removes the least frequent keys, so that fewer than `counters` keys remain.
    pub fn prune(&mut self, counters: usize) {
        if let Some(bound) = self.high(counters.saturating_sub(1)) {
            // Each removed key occurred at most `bound` times.
            self.floor = self.floor.max(bound);
            self.entries.retain(|(_, entry)| entry.high > bound);
        }
        self.entries.shrink_to_fit();
    }

    /// Keeps only the names of the `most` most frequent keys.
    pub(crate) fn drop_names(&mut self, most: usize) {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_unstable_by_key(|at| Reverse(self.entries[*at].1.high));
        for at in order.into_iter().skip(most) {
            self.entries[at].1.name = None;
        }
    }

    /// Returns the `most` keys with the highest lower bounds, each with its entry.
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

    /// Returns the upper bound at index `before` of all upper bounds in descending order.
    fn high(&self, before: usize) -> Option<u64> {
        let mut highs: Vec<u64> = self.entries.iter().map(|(_, it)| it.high).collect();
        if before >= highs.len() {
            return None;
        }
        let (_, high, _) = highs.select_nth_unstable_by(before, |one, other| other.cmp(one));
        Some(*high)
    }

    /// Raises lower bounds: a listed key occurred at least `high` minus `floor` times.
    fn sharpen(&mut self) {
        for (_, entry) in &mut self.entries {
            entry.low = entry.low.max(entry.high.saturating_sub(self.floor));
        }
    }
}
