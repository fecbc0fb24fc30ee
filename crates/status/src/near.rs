//! Which keys have used up most of a limit, as far as a table of fixed size knows.

#[cfg(test)]
mod tests;

/// The keys that are remembered, in sets of [`WAYS`].
const SETS: usize = 64;
const WAYS: usize = 8;
/// Limits of which a key is remembered to be near.
const LIMITS: usize = 4;

/// The golden ratio spreads keys that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// One in each byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

/// A key that has little left of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearKey<N> {
    /// The hash of its client.
    pub key: u64,
    /// The client's name.
    pub name: N,
    /// How near it was when it was last seen.
    pub nearness: Nearness,
}

/// How near a key is to a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    #[inline]
    pub const fn is_near(left: u64, of: u64) -> bool {
        // Five times what is left is no more than the whole; without an overflow.
        left <= of >> 2 && left << 2 <= of - left
    }
}

/// The limits that a request is near to: the first few, which can be counted at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct NearLimits {
    limits: [u32; LIMITS],
    left: [u64; LIMITS],
    of: [u64; LIMITS],
    len: usize,
}

impl NearLimits {
    /// Whether there is no room for more: those here are to be counted now.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.len >= LIMITS
    }

    /// Adds one, if there is room.
    #[inline]
    pub const fn add(&mut self, nearness: Nearness) {
        if self.len < LIMITS {
            self.limits[self.len] = nearness.limit;
            self.left[self.len] = nearness.left;
            self.of[self.len] = nearness.of;
            self.len += 1;
        }
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of them.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Nearness> {
        let numbers = self.left.iter().zip(&self.of);
        let limits = self.limits.iter().zip(numbers).take(self.len);
        limits.map(|(limit, (left, of))| Nearness {
            limit: *limit,
            left: *left,
            of: *of,
        })
    }
}

impl FromIterator<Nearness> for NearLimits {
    /// As many as there is room for.
    fn from_iter<I: IntoIterator<Item = Nearness>>(limits: I) -> Self {
        let mut near = Self::default();
        limits.into_iter().for_each(|nearness| near.add(nearness));
        near
    }
}

/// A set-associative table: the key that was not seen for longest makes place. Where all were seen of late, the one with most left does.
#[derive(Debug)]
pub(crate) struct NearTable<N> {
    // Made with the first key.
    sets: Option<Box<Sets<N>>>,
}

#[derive(Debug)]
struct Sets<N> {
    heads: [Head; SETS],
    keys: [Ways<N>; SETS],
}

type Ways<N> = [Option<Seen<N>>; WAYS];

/// What a search reads of a set lies side by side: most keys are only looked for.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    // Of keys: a byte for each way.
    tags: u64,
    // No key of the set has a lower rank. 0: a way is empty.
    lowest: u64,
}

/// A key, and the limits that it is near to.
#[derive(Debug)]
struct Seen<N> {
    key: u64,
    name: N,
    limits: [Note; LIMITS],
}

/// How near a key was to a limit when it was last seen.
#[derive(Clone, Copy, Debug)]
struct Note {
    limit: u32,
    tick: u32,
    left: u64,
    of: u64,
}

impl Note {
    /// No limit was noted here.
    const NONE: Self = Self {
        limit: u32::MAX,
        tick: 0,
        left: 0,
        of: 0,
    };

    const fn new(nearness: &Nearness, tick: u32) -> Self {
        let Nearness { limit, left, of } = *nearness;
        Self {
            limit,
            tick,
            left,
            of,
        }
    }

    fn rank(&self) -> u64 {
        rank(self.tick, share(self.left, self.of))
    }
}

/// The share of a limit that is left.
#[inline]
fn share(left: u64, of: u64) -> f32 {
    left as f32 / of.max(1) as f32
}

/// Greater if a key was seen later, and of two at one tick if a smaller share is left.
#[inline]
fn rank(tick: u32, share: f32) -> u64 {
    // Shares are no less than 0: then their bits are in the order of their values.
    u64::from(tick) << 32 | u64::from(!share.to_bits())
}

impl<N> Default for NearTable<N> {
    fn default() -> Self {
        Self { sets: None }
    }
}

impl<N> NearTable<N> {
    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize = size_of::<Sets<N>>();
    /// The most names that it has.
    #[cfg(test)]
    pub(crate) const MOST_NAMES: usize = SETS * WAYS;

    /// Notes how near a key is to these limits, each of them once. It is seen at `tick`, which is greater than 0. `name` is asked if the
    /// key gets a place.
    #[inline]
    pub(crate) fn note(
        &mut self,
        key: u64,
        near: &NearLimits,
        tick: u32,
        name: impl FnOnce() -> N,
    ) {
        let spread = key.wrapping_mul(SPREAD);
        let set = (spread >> (u64::BITS - SETS.trailing_zeros())) as usize;
        let Sets { heads, keys } = &mut **self.sets.get_or_insert_with(Sets::empty);
        let (head, keys) = (&mut heads[set], &mut keys[set]);
        // A byte that is the tag becomes 0, and its highest bit tells so. Rarely one above does, too: that way is looked at in vain.
        let differs = head.tags ^ tag(spread).wrapping_mul(BYTES);
        let mut ways = differs.wrapping_sub(BYTES) & !differs & (BYTES << 7);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize / 8 % WAYS;
            if let Some(seen) = &mut keys[way]
                && seen.key == key
            {
                seen.renew(head, near, tick);
                return;
            }
            ways &= ways - 1;
        }
        // Clients take turns in a table that is too small for them: then a name for each would be made for nothing. Nobody has a higher rank
        // than who has nothing left, now.
        if head.lowest < rank(tick, 0.0) {
            let shares = near.iter().map(|it| share(it.left, it.of));
            let least = shares.fold(1.0, |least, it| if it < least { it } else { least });
            let rank = rank(tick, least);
            if rank > head.lowest {
                replace(head, keys, rank, || Seen::new(key, name()), (near, tick));
            }
        }
    }

    /// The keys that were seen at `since` or later, each with when that was.
    pub(crate) fn seen(&self, since: u32) -> impl Iterator<Item = (u32, NearKey<N>)>
    where
        N: Clone,
    {
        let keys = self.sets.iter().flat_map(|sets| sets.keys.iter().flatten());
        keys.flatten().flat_map(move |seen| {
            let notes = seen.notes().filter(move |note| note.tick >= since);
            notes.map(|note| {
                let Note {
                    limit, left, of, ..
                } = *note;
                let near = NearKey {
                    key: seen.key,
                    name: seen.name.clone(),
                    nearness: Nearness { limit, left, of },
                };
                (note.tick, near)
            })
        })
    }
}

impl<N> Sets<N> {
    #[cold]
    fn empty() -> Box<Self> {
        Box::new(Self {
            heads: [Head::default(); SETS],
            keys: std::array::from_fn(|_| Ways::default()),
        })
    }
}

impl<N> Seen<N> {
    fn new(key: u64, name: N) -> Self {
        Self {
            key,
            name,
            limits: [Note::NONE; LIMITS],
        }
    }

    fn notes(&self) -> impl Iterator<Item = &Note> {
        self.limits.iter().filter(|note| note.tick > 0)
    }

    /// Of the limit that it is nearest to.
    fn rank(&self) -> u64 {
        self.notes().map(Note::rank).max().unwrap_or(0)
    }

    #[inline]
    fn renew(&mut self, head: &mut Head, near: &NearLimits, tick: u32) {
        let mut renewed = 0;
        for (note, nearness) in self.limits.iter_mut().zip(near.iter()) {
            // Limits come in one order, mostly. With no more left than before, the rank is no lower.
            let Nearness { limit, left, of } = nearness;
            if note.limit != limit || note.of != of || note.left < left {
                break;
            }
            note.left = left;
            note.tick = tick;
            renewed += 1;
        }
        if renewed < near.len {
            self.note_rest(head, (near, renewed), tick);
        }
    }

    /// Notes limits from this one on.
    #[cold]
    #[inline(never)]
    fn note_rest(&mut self, head: &mut Head, (near, from): (&NearLimits, usize), tick: u32) {
        for (index, nearness) in near.iter().enumerate().skip(from) {
            self.note(index, Note::new(&nearness, tick));
        }
        head.lowest = head.lowest.min(self.rank());
    }

    /// Notes a limit that was not noted at this place, or of which more is left than before.
    fn note(&mut self, index: usize, note: Note) {
        let mut known = self.limits.iter();
        let known = known.position(|known| known.limit == note.limit);
        // Those before were noted of the same request.
        let others = if index < LIMITS { index } else { 0 }..LIMITS;
        let lowest = || others.min_by_key(|at| self.limits[*at].rank());
        let Some(at) = known.or_else(lowest) else {
            return;
        };
        // A key that is near more limits than there are places for keeps those that it is nearest to.
        if known.is_some() || self.limits[at].rank() < note.rank() {
            self.limits[at] = note;
        }
        if at > index {
            self.limits.swap(at, index);
        }
    }
}

/// A key of this rank gets the place of the one with the lowest rank, if its own is higher.
#[cold]
#[inline(never)]
fn replace<N>(
    head: &mut Head,
    keys: &mut Ways<N>,
    rank: u64,
    seen: impl FnOnce() -> Seen<N>,
    (near, tick): (&NearLimits, u32),
) {
    let ranks = keys.each_ref();
    let mut ranks = ranks.map(|seen| seen.as_ref().map_or(0, Seen::rank));
    let lowest = ranks.into_iter().fold(u64::MAX, u64::min);
    let way = ranks.iter().take_while(|it| **it != lowest).count() % WAYS;
    if rank > lowest {
        let seen = keys[way].insert(seen());
        seen.renew(head, near, tick);
        let tag = tag(seen.key.wrapping_mul(SPREAD));
        head.tags = head.tags & !(0xff << (8 * way)) | tag << (8 * way);
        ranks[way] = rank;
    }
    head.lowest = ranks.into_iter().fold(u64::MAX, u64::min);
}

/// Of a key that was spread; not from the bits that choose the set.
#[inline]
const fn tag(spread: u64) -> u64 {
    spread >> 48 & 0xff
}
