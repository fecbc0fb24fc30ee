//! Which keys have used up most of a limit, as far as a table of fixed size knows.

/// The keys that are remembered, in sets of [`WAYS`].
const SETS: usize = 128;
const WAYS: usize = 4;

/// A key that has little left of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearKey<N> {
    /// The hash of its client.
    pub key: u64,
    /// The client's name.
    pub name: N,
    /// How near it was when it was last seen.
    pub nearness: Nearness,
    /// When that was.
    pub(crate) tick: u32,
}

/// How near a key is to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nearness {
    /// The number of the limit, as the caller counts them.
    pub limit: u32,
    /// What is left.
    pub left: u64,
    /// The capacity, queue or limit.
    pub of: u64,
}

impl Nearness {
    /// Whether so little is left that it counts: a fifth or less.
    pub const fn is_near(left: u64, of: u64) -> bool {
        left.saturating_mul(5) <= of
    }

    /// Whether a smaller share is left.
    fn has_less_left_than(&self, other: &Self) -> bool {
        u128::from(self.left) * u128::from(other.of) < u128::from(other.left) * u128::from(self.of)
    }
}

/// A set-associative table: the key that was not seen for longest makes place. Where all were seen of late, one with more left does.
#[derive(Debug)]
pub(crate) struct NearTable<N> {
    // Made with the first key.
    sets: Vec<Set<N>>,
}

/// What a search reads lies side by side: most keys are only looked for.
#[derive(Debug)]
struct Set<N> {
    tags: [u64; WAYS],
    // 0: an empty slot, which is older than all.
    ticks: [u32; WAYS],
    keys: [Option<NearKey<N>>; WAYS],
}

impl<N> Default for Set<N> {
    fn default() -> Self {
        Self {
            tags: [0; WAYS],
            ticks: [0; WAYS],
            keys: [const { None }; WAYS],
        }
    }
}

impl<N> Default for NearTable<N> {
    fn default() -> Self {
        Self { sets: Vec::new() }
    }
}

impl<N> NearTable<N> {
    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize = SETS * size_of::<Set<N>>();

    /// Notes a key; `tick` is greater than 0.
    pub(crate) fn add(
        &mut self,
        key: u64,
        nearness: Nearness,
        tick: u32,
        name: impl FnOnce() -> N,
    ) {
        if self.sets.is_empty() {
            self.sets.resize_with(SETS, Set::default);
        }
        // Of two different keys and limits it is the same once in 2^64 times.
        let tag =
            (key ^ u64::from(nearness.limit).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = &mut self.sets[(tag >> (u64::BITS - SETS.trailing_zeros())) as usize];
        if let Some(at) = set.tags.iter().position(|known| *known == tag)
            && let Some(known) = &mut set.keys[at]
        {
            (known.nearness, known.tick, set.ticks[at]) = (nearness, tick, tick);
            return;
        }
        let oldest = (1..WAYS).fold(0, |oldest, at| match set.ticks[at] < set.ticks[oldest] {
            true => at,
            false => oldest,
        });
        // Clients take turns in a table that is too small for them: then a name for each would be made for nothing.
        let has_less = |known: &NearKey<N>| nearness.has_less_left_than(&known.nearness);
        if set.ticks[oldest] == tick && !set.keys[oldest].as_ref().is_none_or(has_less) {
            return;
        }
        (set.tags[oldest], set.ticks[oldest]) = (tag, tick);
        set.keys[oldest] = Some(NearKey {
            key,
            name: name(),
            nearness,
            tick,
        });
    }

    /// The keys that were seen at `since` or later.
    pub(crate) fn seen(&self, since: u32) -> impl Iterator<Item = &NearKey<N>> {
        self.sets
            .iter()
            .flat_map(|set| set.keys.iter().flatten())
            .filter(move |it| it.tick >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_less_left_takes_the_place_of_others_and_who_was_not_seen_makes_place() {
        let mut table = NearTable::default();
        let nearness = |left| Nearness {
            limit: 0,
            left,
            of: 100,
        };
        let names = |table: &NearTable<u64>| -> Vec<u64> {
            let mut names: Vec<u64> = table.seen(1).map(|it| it.name).collect();
            names.sort_unstable();
            names
        };
        // Enough for every set to be full.
        (0..100_000).for_each(|key| table.add(key, nearness(10), 1, || key));
        let first = names(&table);
        assert_eq!(first.len(), SETS * WAYS);
        // Others that have as much left change nothing, and no name is made for them.
        (100_000..200_000).for_each(|key| table.add(key, nearness(10), 1, || unreachable!()));
        assert_eq!(names(&table), first);
        table.add(200_000, nearness(9), 1, || 200_000);
        assert!(names(&table).contains(&200_000));
        // A turn later the others are old.
        (300_000..400_000).for_each(|key| table.add(key, nearness(20), 2, || key));
        assert_eq!(table.seen(2).count(), SETS * WAYS);
        assert!(names(&table).iter().all(|name| *name >= 300_000));
    }
}
