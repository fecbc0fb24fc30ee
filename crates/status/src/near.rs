//! Which keys have used up most of a limit, as far as a table of fixed size knows.

/// The keys that are remembered, in sets of [`WAYS`]. All limits of a client are in one set, so that a request looks into one.
const SETS: usize = 64;
const WAYS: usize = 8;

/// The golden ratio spreads keys that differ in few bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

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

    /// Greater if it was seen later, and of two at one tick if a smaller share is left.
    #[inline]
    fn rank(&self, tick: u32) -> u64 {
        // Shares are no less than 0: then their bits are in the order of their values. Of a refusal nothing is left, mostly.
        let share = match self.left {
            0 => 0,
            left => (left as f32 / self.of as f32).to_bits(),
        };
        u64::from(tick) << 32 | u64::from(!share)
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

type Ways<N> = [Option<NearKey<N>>; WAYS];

/// What a search reads of a set lies side by side: most keys are only looked for.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    // Of keys, whatever the limit: a byte for each way.
    tags: u64,
    // The smallest of `ranks`.
    lowest: u64,
    // As of [`Nearness::rank`]. 0: an empty slot, which is older than all.
    ranks: [u64; WAYS],
}

/// Where a key is looked for, found once for all limits that one request met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    set: usize,
    // Where it may be with limits that were not noted yet, by its tag: the highest bit of the byte of each way.
    ways: u64,
}

/// One in each byte.
const BYTES: u64 = 0x0101_0101_0101_0101;

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

    /// Where to look for a key that is seen at `tick`, which is greater than 0. None: neither is it there, nor can it get a place.
    #[inline]
    pub(crate) fn place_of(&mut self, key: u64, tick: u32) -> Option<Place> {
        let spread = key.wrapping_mul(SPREAD);
        let set = (spread >> (u64::BITS - SETS.trailing_zeros())) as usize;
        let head = &self.sets.get_or_insert_with(Sets::empty).heads[set];
        // A byte that is the tag becomes 0, and its highest bit tells so. Rarely one above does, too: that way is looked at in vain.
        let differs = head.tags ^ tag(spread).wrapping_mul(BYTES);
        let ways = differs.wrapping_sub(BYTES) & !differs & (BYTES << 7);
        let highest = u64::from(tick) << 32 | u64::from(u32::MAX);
        (ways != 0 || head.lowest < highest).then_some(Place { set, ways })
    }

    /// Notes how near the key of this place is to a limit, each limit once. Tells whether nothing was left when it was last seen.
    #[inline]
    pub(crate) fn add(
        &mut self,
        place: &mut Place,
        key: u64,
        nearness: Nearness,
        tick: u32,
        name: impl FnOnce() -> N,
    ) -> bool {
        let rank = nearness.rank(tick);
        let sets = &mut **self.sets.get_or_insert_with(Sets::empty);
        if place.ways != 0
            && let Some(before) = sets.renew(place, key, nearness, rank)
        {
            return before == 0;
        }
        // Clients take turns in a table that is too small for them: then a name for each would be made for nothing.
        if rank > sets.heads[place.set % SETS].lowest {
            sets.replace(place.set % SETS, key, nearness, tick, name);
        }
        false
    }

    /// The keys that were seen at `since` or later, each with when that was.
    pub(crate) fn seen(&self, since: u32) -> impl Iterator<Item = (u32, &NearKey<N>)> {
        let sets = self.sets.iter();
        let sets = sets.flat_map(|sets| sets.heads.iter().zip(&sets.keys));
        let keys = sets.flat_map(|(head, keys)| head.ranks.iter().zip(keys));
        let keys = keys.filter_map(|(rank, key)| Some(((rank >> 32) as u32, key.as_ref()?)));
        keys.filter(move |(tick, _)| *tick >= since)
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

    /// Notes a key that is known to be near this limit; tells what was left before. None: it is not known.
    #[inline]
    fn renew(&mut self, place: &mut Place, key: u64, nearness: Nearness, rank: u64) -> Option<u64> {
        let (head, keys) = (
            &mut self.heads[place.set % SETS],
            &mut self.keys[place.set % SETS],
        );
        let mut ways = place.ways;
        while ways != 0 {
            let way = ways.trailing_zeros() as usize / 8 % WAYS;
            if let Some(seen) = &mut keys[way]
                && seen.nearness.limit == nearness.limit
                && seen.key == key
            {
                let before = std::mem::replace(&mut seen.nearness, nearness).left;
                // Limits come in one order: the next one's way is the next, mostly.
                place.ways ^= ways & ways.wrapping_neg();
                if head.ranks[way] != rank {
                    head.rank(way, rank);
                }
                return Some(before);
            }
            ways &= ways - 1;
        }
        None
    }

    /// The key of the lowest rank makes place.
    #[cold]
    #[inline(never)]
    fn replace(
        &mut self,
        set: usize,
        key: u64,
        nearness: Nearness,
        tick: u32,
        name: impl FnOnce() -> N,
    ) {
        let head = &mut self.heads[set];
        let ranks = head.ranks.iter();
        let way = ranks.take_while(|it| **it != head.lowest).count();
        let tag = tag(key.wrapping_mul(SPREAD));
        head.tags = head.tags & !(0xff << (8 * way)) | tag << (8 * way);
        head.rank(way, nearness.rank(tick));
        self.keys[set][way] = Some(NearKey {
            key,
            name: name(),
            nearness,
        });
    }
}

/// Of a key that was spread; not from the bits that choose the set.
#[inline]
const fn tag(spread: u64) -> u64 {
    spread >> 48 & 0xff
}

impl Head {
    #[inline]
    fn rank(&mut self, way: usize, rank: u64) {
        let before = std::mem::replace(&mut self.ranks[way], rank);
        if before == self.lowest {
            self.find_lowest();
        } else {
            self.lowest = self.lowest.min(rank);
        }
    }

    #[inline(never)]
    fn find_lowest(&mut self) {
        self.lowest = self.ranks.into_iter().fold(u64::MAX, u64::min);
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
            let mut names: Vec<u64> = table.seen(1).map(|(_, it)| it.name).collect();
            names.sort_unstable();
            names
        };
        let add = |table: &mut NearTable<u64>, key, nearness, tick, name: fn(u64) -> u64| {
            if let Some(mut place) = table.place_of(key, tick) {
                table.add(&mut place, key, nearness, tick, || name(key));
            }
        };
        // Enough for every set to be full.
        (0..100_000).for_each(|key| add(&mut table, key, nearness(10), 1, |key| key));
        let first = names(&table);
        assert_eq!(first.len(), SETS * WAYS);
        // Others that have as much left change nothing, and no name is made for them.
        (100_000..200_000)
            .for_each(|key| add(&mut table, key, nearness(10), 1, |_| unreachable!()));
        assert_eq!(names(&table), first);
        add(&mut table, 200_000, nearness(9), 1, |key| key);
        assert!(names(&table).contains(&200_000));
        // Of all in its set, the one with most left makes place.
        (200_001..300_000).for_each(|key| add(&mut table, key, nearness(10), 1, |key| key));
        (400_000..500_000).for_each(|key| add(&mut table, key, nearness(8), 1, |key| key));
        let left = table.seen(1).map(|(_, it)| it.nearness.left);
        assert_eq!(left.max(), Some(8));
        // Who is known and has more left again stays, until another one has less.
        let known = names(&table)[0];
        add(&mut table, known, nearness(15), 1, |_| unreachable!());
        assert!(table.seen(1).any(|(_, it)| it.nearness.left == 15));
        (500_000..600_000).for_each(|key| add(&mut table, key, nearness(8), 1, |key| key));
        assert!(!names(&table).contains(&known));
        // Where all of this turn have nothing left, nobody is looked for any longer.
        (0..100_000).for_each(|key| add(&mut table, key, nearness(0), 1, |key| key));
        let known = names(&table)[0];
        assert!(table.place_of(known, 1).is_some());
        let unknown = (700_000..800_000).filter(|key| table.place_of(*key, 1).is_some());
        // A tag is one of 256.
        assert!(unknown.count() < 10_000);
        // A turn later the others are old.
        (300_000..400_000).for_each(|key| add(&mut table, key, nearness(20), 2, |key| key));
        assert_eq!(table.seen(2).count(), SETS * WAYS);
        assert!(names(&table).iter().all(|name| *name >= 300_000));
    }
}
