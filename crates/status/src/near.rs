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
}

/// A set-associative table: the key that was not seen for longest makes place.
#[derive(Debug)]
pub(crate) struct NearTable<N> {
    // Made with the first key.
    slots: Vec<Option<NearKey<N>>>,
}

impl<N> Default for NearTable<N> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<N> NearTable<N> {
    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize = SETS * WAYS * size_of::<Option<NearKey<N>>>();

    pub(crate) fn add(
        &mut self,
        key: u64,
        nearness: Nearness,
        tick: u32,
        name: impl FnOnce() -> N,
    ) {
        if self.slots.is_empty() {
            self.slots.resize_with(SETS * WAYS, || None);
        }
        let mixed =
            (key ^ u64::from(nearness.limit).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = (mixed >> (u64::BITS - SETS.trailing_zeros())) as usize * WAYS;
        let set = &mut self.slots[set..set + WAYS];
        let is_it = |slot: &Option<NearKey<N>>| {
            let known = slot.as_ref();
            known.is_some_and(|it| it.key == key && it.nearness.limit == nearness.limit)
        };
        if let Some(Some(known)) = set.iter_mut().find(|slot| is_it(slot)) {
            (known.nearness, known.tick) = (nearness, tick);
            return;
        }
        // An empty slot is older than all.
        let oldest = set
            .iter_mut()
            .min_by_key(|slot| slot.as_ref().map(|it| it.tick));
        if let Some(oldest) = oldest {
            let name = name();
            *oldest = Some(NearKey {
                key,
                name,
                nearness,
                tick,
            });
        }
    }

    /// The keys that were seen at `since` or later.
    pub(crate) fn seen(&self, since: u32) -> impl Iterator<Item = &NearKey<N>> {
        self.slots
            .iter()
            .flatten()
            .filter(move |it| it.tick >= since)
    }
}
