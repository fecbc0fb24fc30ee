//! A table of fixed size with the keys that have used up most of a limit.

#[cfg(test)]
mod tests;

use crate::index::{Index, Keyed};

/// The number of keys that remain in the table after the keys with the lowest ranks are removed.
const KEYS: usize = 512;
/// When the table has `KEYS + SPARE` keys, it removes the `SPARE` keys with the lowest ranks.
const SPARE: usize = 64;
/// The number of cells of the index.
const CELLS: usize = 4 * KEYS;
/// The most limits that the table stores for each key.
const LIMITS: usize = 4;

/// The value of an array element that holds no limit.
const NO_LIMIT: u32 = u32::MAX;

/// A key that has few units left of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearKey<N> {
    /// The hash of the client.
    pub key: u64,
    /// The client's name.
    pub name: N,
    /// The units left at the key's last request.
    pub nearness: Nearness,
}

/// The units that a key has left of a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nearness {
    /// The limit's number, assigned by the caller.
    pub limit: u32,
    /// Units left.
    pub left: u64,
    /// The capacity, queue or limit of the quota, depending on the algorithm.
    pub of: u64,
}

impl Nearness {
    /// Whether a fifth of the quota or less is left.
    #[inline]
    pub const fn is_near(left: u64, of: u64) -> bool {
        // Quotas are below 2^53, so the product does not overflow.
        left.wrapping_mul(5) <= of
    }
}

/// The limits of a request of which the client has a fifth of the quota or less left. At most `LIMITS` limits.
// Each field of [`Nearness`] has its own array, so that a processor compares and copies several limits at once.
#[derive(Clone, Copy, Debug)]
pub struct NearLimits {
    limits: [u32; LIMITS],
    left: [u64; LIMITS],
    of: [u64; LIMITS],
    len: usize,
    // The fewest units that are left of any of these limits.
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
    /// Whether there is no room for another limit. If so, the caller must pass this value to [`Hitters::count`](crate::Hitters::count), and
    /// add further limits to an empty value. Otherwise [`add`](Self::add) ignores them.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.len >= LIMITS
    }

    /// Adds a limit. Ignores the limit if there is no room.
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

    /// Whether no limit was added.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl FromIterator<Nearness> for NearLimits {
    /// Takes the first limits, at most `LIMITS`.
    fn from_iter<I: IntoIterator<Item = Nearness>>(limits: I) -> Self {
        let mut near = Self::default();
        limits.into_iter().for_each(|nearness| near.add(nearness));
        near
    }
}

/// A table of keys that have few units left of a limit. It keeps the keys with the highest [`rank`].
#[derive(Debug)]
pub(crate) struct NearTable<N> {
    keys: Vec<Seen<N>>,
    index: Index<CELLS>,
    // The highest rank of a removed key.
    floor: u64,
}

/// A key and the limits that it is near to, with one array for each field as in [`NearLimits`].
#[derive(Debug)]
struct Seen<N> {
    key: u64,
    name: N,
    limits: [u32; LIMITS],
    // The tick at which each limit was stored.
    ticks: [u32; LIMITS],
    left: [u64; LIMITS],
    of: [u64; LIMITS],
}

/// Returns the rank of a key's limit: higher for a later tick, and at the same tick higher for fewer units left.
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
    /// The most bytes of a table, without the memory that names point to.
    #[cfg(test)]
    pub(crate) const MOST_BYTES: usize =
        Self::MOST_NAMES * size_of::<Seen<N>>() + Index::<CELLS>::BYTES;
    /// The most names in a table.
    #[cfg(test)]
    pub(crate) const MOST_NAMES: usize = KEYS + SPARE;

    /// Stores the units that `key` has left of the limits in `near`, which must be different limits. `tick` must be above 0. Calls `name`
    /// only if the key is added to the table.
    #[inline]
    pub(crate) fn note(
        &mut self,
        key: u64,
        near: &NearLimits,
        tick: u32,
        name: impl FnOnce() -> N,
    ) {
        let cell = match self.index.find(&self.keys, key) {
            Ok(place) => return self.keys[place].renew(near, tick),
            Err(cell) => cell,
        };
        // `floor` is the highest rank of a removed key. A new key that ranks no higher would soon be removed again, so it is not added.
        if self.floor < rank(tick, near.fewest) {
            self.index.set(cell, self.keys.len());
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
            self.keys
                .select_nth_unstable_by_key(KEYS, |seen| std::cmp::Reverse(seen.rank()));
            self.floor = self.keys[KEYS].rank();
            self.keys.truncate(KEYS);
            self.index.rebuild(&self.keys);
        }
    }

    /// Returns each key with each limit that was stored for it at the tick `since` or later, and the tick.
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

    /// Returns the indices at which the arrays hold a limit.
    fn noted(&self) -> impl Iterator<Item = usize> {
        (0..LIMITS).filter(|at| self.limits[*at] != NO_LIMIT)
    }

    /// Returns the rank of the limit at index `at`. 0 if there is no limit.
    fn rank_of(&self, at: usize) -> u64 {
        match self.limits[at] {
            NO_LIMIT => 0,
            _ => rank(self.ticks[at], self.left[at]),
        }
    }

    /// Returns the highest rank of the key's limits.
    fn rank(&self) -> u64 {
        let ranks = (0..LIMITS).map(|at| self.rank_of(at));
        ranks.fold(0, u64::max)
    }

    #[inline]
    fn renew(&mut self, near: &NearLimits, tick: u32) {
        // Usually a client is near the same limits as at its last request, in the same order.
        if self.limits == near.limits {
            self.ticks = [tick; LIMITS];
            self.left = near.left;
            self.of = near.of;
        } else {
            (0..near.len).for_each(|at| self.note(at, near, tick));
        }
    }

    /// Stores the limit at `index` of `near` at the same index of `self`, so that the next request finds the limits in the same order.
    #[cold]
    #[inline(never)]
    fn note(&mut self, index: usize, near: &NearLimits, tick: u32) {
        let (limit, left, of) = (near.limits[index], near.left[index], near.of[index]);
        let place = self.limits.iter().position(|other| *other == limit);
        // The array elements before `index` already hold limits of this request, so they are not replaced.
        let lowest = || (index..LIMITS).min_by_key(|at| self.rank_of(*at));
        let Some(at) = place.or_else(lowest) else {
            return;
        };
        // If a key is near more than [`LIMITS`] limits, the table keeps the limits with the highest ranks.
        if place.is_none() && self.rank_of(at) >= rank(tick, left) {
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
