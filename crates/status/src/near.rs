//! Which keys have used up most of a limit, as far as a table of fixed size knows.

#[cfg(test)]
mod tests;

use crate::index::{Index, Keyed};

/// The keys that are remembered at least, if there are as many.
const KEYS: usize = 512;
/// Further keys. When all places are taken, so many are removed.
const SPARE: usize = 64;
/// Slots of the index.
const SLOTS: usize = 4 * KEYS;
/// Limits of which a key is remembered to be near.
const LIMITS: usize = 4;

/// In place of a limit's number.
const NO_LIMIT: u32 = u32::MAX;

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
        // Quotas are below 2^53. So the product fits.
        left.wrapping_mul(5) <= of
    }
}

/// The limits that a request is near to: the first few, which can be counted at once.
// A list for each number, so that a processor compares and copies several at once.
#[derive(Clone, Copy, Debug)]
pub struct NearLimits {
    limits: [u32; LIMITS],
    left: [u64; LIMITS],
    of: [u64; LIMITS],
    len: usize,
    // The fewest units that are left of a limit.
    fewest: u64,
}

impl Default for NearLimits {
    #[inline]
    fn default() -> Self {
        Self {
            limits: [NO_LIMIT; LIMITS],
            left: [0; LIMITS],
            of: [0; LIMITS],
            len: 0,
            fewest: u64::MAX,
        }
    }
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
            let Nearness { limit, left, of } = nearness;
            self.limits[self.len] = limit;
            self.left[self.len] = left;
            self.of[self.len] = of;
            self.len += 1;
            if left < self.fewest {
                self.fewest = left;
            }
        }
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
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

/// The keys of the highest [`rank`].
#[derive(Debug)]
pub(crate) struct NearTable<N> {
    keys: Vec<Seen<N>>,
    index: Index<SLOTS>,
    // No key that was removed had a higher rank.
    floor: u64,
}

/// A key, and the limits that it is near to, in lists as [`NearLimits`] has them.
#[derive(Debug)]
struct Seen<N> {
    key: u64,
    name: N,
    limits: [u32; LIMITS],
    // When each limit was noted.
    ticks: [u32; LIMITS],
    left: [u64; LIMITS],
    of: [u64; LIMITS],
}

/// Greater if a key was seen later, and of two at one tick if fewer units are left.
#[inline]
fn rank(tick: u32, left: u64) -> u64 {
    let left = u32::try_from(left).unwrap_or(u32::MAX);
    u64::from(tick) << 32 | u64::from(!left)
}

impl<N> Default for NearTable<N> {
    fn default() -> Self {
        Self {
            keys: Vec::new(),
            index: Index::default(),
            floor: 0,
        }
    }
}

impl<N> NearTable<N> {
    /// The most bytes that it takes, without what names lead to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize =
        Self::MOST_NAMES * size_of::<Seen<N>>() + Index::<SLOTS>::BYTES;
    /// The most names that it has.
    #[cfg(test)]
    pub(crate) const MOST_NAMES: usize = KEYS + SPARE;

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
        let slot = match self.index.find(&self.keys, key) {
            Ok(place) => return self.keys[place].renew(near, tick),
            Err(slot) => slot,
        };
        // Clients take turns in a table that is too small for them: then a name for each would be made for nothing.
        if self.floor < rank(tick, near.fewest) {
            self.index.set(slot, self.keys.len());
            self.add(Seen::new(key, name()), near, tick);
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, mut seen: Seen<N>, near: &NearLimits, tick: u32) {
        if self.keys.len() == self.keys.capacity() {
            let most = KEYS + SPARE;
            let more = self.keys.len().max(SPARE).min(most - self.keys.len());
            self.keys.reserve_exact(more);
        }
        seen.renew(near, tick);
        self.keys.push(seen);
        if self.keys.len() == KEYS + SPARE {
            let by_rank = |seen: &Seen<N>| std::cmp::Reverse(seen.rank());
            self.keys.select_nth_unstable_by_key(KEYS, by_rank);
            self.floor = self.keys[KEYS].rank();
            self.keys.truncate(KEYS);
            self.index.rebuild(&self.keys);
        }
    }

    /// The keys that were seen at `since` or later, each with when that was.
    pub(crate) fn seen(&self, since: u32) -> impl Iterator<Item = (u32, NearKey<N>)>
    where
        N: Clone,
    {
        self.keys.iter().flat_map(move |seen| {
            let noted = seen.noted().filter(move |at| seen.ticks[*at] >= since);
            noted.map(|at| {
                let near = NearKey {
                    key: seen.key,
                    name: seen.name.clone(),
                    nearness: Nearness {
                        limit: seen.limits[at],
                        left: seen.left[at],
                        of: seen.of[at],
                    },
                };
                (seen.ticks[at], near)
            })
        })
    }
}

impl<N> Keyed for Seen<N> {
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }
}

impl<N> Seen<N> {
    fn new(key: u64, name: N) -> Self {
        Self {
            key,
            name,
            limits: [NO_LIMIT; LIMITS],
            ticks: [0; LIMITS],
            left: [0; LIMITS],
            of: [0; LIMITS],
        }
    }

    /// The places of limits that were noted.
    fn noted(&self) -> impl Iterator<Item = usize> {
        (0..LIMITS).filter(|at| self.limits[*at] != NO_LIMIT)
    }

    /// The rank of one limit.
    fn rank_of(&self, at: usize) -> u64 {
        match self.limits[at] {
            NO_LIMIT => 0,
            _ => rank(self.ticks[at], self.left[at]),
        }
    }

    /// Of the limit with the fewest units left.
    fn rank(&self) -> u64 {
        let ranks = (0..LIMITS).map(|at| self.rank_of(at));
        ranks.fold(0, u64::max)
    }

    #[inline]
    fn renew(&mut self, near: &NearLimits, tick: u32) {
        // Mostly a client is near the same limits again, in one order.
        if self.limits == near.limits {
            self.ticks = [tick; LIMITS];
            self.left = near.left;
            self.of = near.of;
        } else {
            (0..near.len).for_each(|at| self.note(at, near, tick));
        }
    }

    /// Notes one limit of a request, at the place that it has there.
    #[cold]
    #[inline(never)]
    fn note(&mut self, index: usize, near: &NearLimits, tick: u32) {
        let (limit, left, of) = (near.limits[index], near.left[index], near.of[index]);
        let known = self.limits.iter().position(|known| *known == limit);
        // Those before were noted of the same request.
        let lowest = || (index..LIMITS).min_by_key(|at| self.rank_of(*at));
        let Some(at) = known.or_else(lowest) else {
            return;
        };
        // A key that is near more limits than there are places for keeps those with the fewest units left.
        if known.is_none() && self.rank_of(at) >= rank(tick, left) {
            return;
        }
        (self.limits[at], self.ticks[at]) = (limit, tick);
        (self.left[at], self.of[at]) = (left, of);
        if at > index {
            self.limits.swap(at, index);
            self.ticks.swap(at, index);
            self.left.swap(at, index);
            self.of.swap(at, index);
        }
    }
}
