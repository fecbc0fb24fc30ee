//! Finds clients with high use, clients with many refusals, and clients near a limit. Each thread has its own counts. [`Hitters::top`] and
//! [`Hitters::nearest`] merge the counts of all threads.

use std::cell::Cell;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::near::{NearKey, NearLimits, NearTable};
use crate::ring::push;
use crate::space_saving::{COUNTERS, SpaceSaving};
use crate::summary::Summary;

/// The number of complete time slices that are kept. A time slice takes ten seconds. Together with the running time slice, these time
/// slices cover 50 to 60 seconds.
const SLICES: usize = 5;
/// In a complete time slice, this number of keys with the highest counts keep their names. Keys without a name are not shown.
const NAMED: usize = 112;
/// The number of turns for which a key stays listed as near a limit. A turn is the end of a time slice.
const NEAR_TURNS: u32 = 6;

/// The measure by which clients are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Units that limits admitted.
    Admitted = 0,
    /// Requests that limits refused.
    Refused = 1,
}

impl Measure {
    /// All measures, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Admitted, Self::Refused];
}

/// The clients with the highest counts over all threads. `N` is the type of a client's name.
#[derive(Debug)]
pub struct Hitters<N> {
    shards: Box<[Mutex<Shard<N>>]>,
    past: Mutex<Past<N>>,
    // The number of complete time slices, plus `NEAR_TURNS`, so that `turns - NEAR_TURNS` is never negative.
    turns: AtomicU32,
}

/// The counts of one thread.
#[derive(Debug)]
struct Shard<N> {
    // The counts of the running time slice, indexed by [`Measure`].
    tables: [SpaceSaving<N>; 2],
    near: NearTable<N>,
}

/// The complete time slices, merged over all threads.
#[derive(Debug)]
struct Past<N> {
    minute: VecDeque<[Summary<Arc<N>>; 2]>,
    start: [Summary<Arc<N>>; 2],
}

/// The clients with the highest counts.
#[derive(Clone, Debug)]
pub struct Top<N> {
    /// The counts of the last minute, indexed by [`Measure`].
    pub minute: [Summary<Arc<N>>; 2],
    /// The counts since the start, indexed by [`Measure`].
    pub start: [Summary<Arc<N>>; 2],
}

/// Returns the number of the calling thread. Threads are numbered in the order of their first requests.
#[inline]
fn thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| match own.get() {
        usize::MAX => {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            own.set(number);
            number
        }
        number => number,
    })
}

impl<N: Clone> Hitters<N> {
    /// Makes counters for this number of threads.
    pub fn new(threads: usize) -> Self {
        let shards = (0..threads.max(1)).map(|_| {
            Mutex::new(Shard {
                tables: Default::default(),
                near: NearTable::default(),
            })
        });
        Self {
            shards: shards.collect(),
            past: Mutex::new(Past {
                minute: VecDeque::new(),
                start: Default::default(),
            }),
            turns: AtomicU32::new(NEAR_TURNS),
        }
    }

    /// Counts a request of `key` on this thread. Adds `added` to the key's counter, and stores the limits in `near`, which must be
    /// different limits. Calls `name` at most once for the key's counter, and at most once for the key's entry in the table of keys near a
    /// limit.
    #[inline]
    pub fn count(
        &self,
        key: u64,
        added: Option<(Measure, u64)>,
        near: &NearLimits,
        mut name: impl FnMut() -> N,
    ) {
        let (thread, shards) = (thread(), self.shards.len());
        // Usually there is a shard for each thread, so the slow division is not needed.
        let shard = match thread < shards {
            true => thread,
            false => thread % shards,
        };
        let mut shard = self.shards[shard].lock();
        if let Some((measure, weight)) = added {
            shard.tables[measure as usize].add(key, weight, &mut name);
        }
        if !near.is_empty() {
            let turn = self.turns.load(Ordering::Relaxed);
            shard.near.note(key, near, turn, name);
        }
    }

    /// Completes the running time slice. The caller must call this function every ten seconds, because six time slices count as a minute.
    pub fn turn(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        let mut slice = self.slice(std::mem::take);
        slice.iter_mut().for_each(|slice| slice.prune(COUNTERS));
        let mut past = self.past.lock();
        for (start, slice) in past.start.iter_mut().zip(&slice) {
            // Merges the time slice before names are dropped from it. A client with a small count in each time slice may have a large count
            // since the start, and needs its name there.
            start.merge(slice.clone());
            start.prune(COUNTERS);
            start.drop_names(NAMED);
        }
        slice.iter_mut().for_each(|slice| slice.drop_names(NAMED));
        push(&mut past.minute, slice, SLICES);
    }

    /// Returns the clients with the highest counts.
    pub fn top(&self) -> Top<N> {
        let running = self.slice(|table| table.clone());
        let past = self.past.lock();
        let mut top = Top {
            minute: running.clone(),
            start: past.start.clone(),
        };
        for (start, running) in top.start.iter_mut().zip(running) {
            start.merge(running);
        }
        for slice in &past.minute {
            for (minute, slice) in top.minute.iter_mut().zip(slice) {
                minute.merge(slice.clone());
            }
        }
        top
    }

    /// Returns the counts of the running time slice, merged over all threads. `taken` takes or copies the table of one thread.
    fn slice(&self, taken: impl Fn(&mut SpaceSaving<N>) -> SpaceSaving<N>) -> [Summary<Arc<N>>; 2] {
        Measure::ALL.map(|measure| {
            let mut slice = Summary::default();
            for shard in &self.shards {
                // Holds the lock only while `taken` runs, because requests wait for the lock.
                let table = taken(&mut shard.lock().tables[measure as usize]);
                slice.merge(table.summary());
            }
            slice
        })
    }

    /// Returns the keys that were near a limit within the last minute, once for each limit. The keys with the smallest share of the quota
    /// left come first.
    pub fn nearest(&self) -> Vec<NearKey<N>> {
        let since = self.turns.load(Ordering::Relaxed) - NEAR_TURNS;
        let mut latest: HashMap<(u64, u32), (u32, NearKey<N>)> = HashMap::new();
        let share = |it: &NearKey<N>| {
            let left = u128::from(it.nearness.left) << 32;
            left / u128::from(it.nearness.of.max(1))
        };
        for shard in &self.shards {
            // Holds the lock only while the table is copied, because requests wait for the lock.
            let seen: Vec<_> = shard.lock().near.seen(since).collect();
            for (tick, seen) in seen {
                match latest.entry((seen.key, seen.nearness.limit)) {
                    Vacant(place) => {
                        place.insert((tick, seen));
                    }
                    Occupied(mut entry) => {
                        // Several threads may have an entry of this key and limit. The entry of the latest turn is kept. If the turns are
                        // equal, the order of the requests is unknown, so the entry with the smallest share left is kept.
                        let (before, share_before) = (entry.get().0, share(&entry.get().1));
                        if before < tick || before == tick && share(&seen) < share_before {
                            entry.insert((tick, seen));
                        }
                    }
                }
            }
        }
        let mut nearest: Vec<_> = latest.into_values().map(|(_, it)| it).collect();
        nearest.sort_by_key(|it| (share(it), it.nearness.limit, it.key));
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::near::Nearness;
    use crate::space_saving::NAMES;
    use crate::summary::Entry;

    /// The most bytes of a name outside of the table.
    const NAME: usize = 80;
    /// The further bytes of a name that is shared, with its reference counts.
    const SHARED: usize = 24 + 16;

    #[test]
    fn one_thread_takes_a_megabyte_at_most() {
        // The type is as large as a client.
        type Name = (Box<str>, u64);
        let names = (2 * NAMES + NearTable::<Name>::MOST_NAMES) * NAME;
        let tables = 2 * SpaceSaving::<Name>::MOST_BYTES + SpaceSaving::<Name>::REMOVAL_BYTES;
        let thread = tables + NearTable::<Name>::MOST_BYTES + names;
        let slice = COUNTERS * size_of::<(u64, Entry<Arc<Name>>)>() + NAMED * (NAME + SHARED);
        let past = 2 * (SLICES + 1) * slice;
        assert!(thread + past < 1 << 20, "{thread} + {past}");
        // Further threads need only this memory, because all threads share the past.
        assert!(thread < 1 << 19, "{thread}");
    }

    #[test]
    fn who_is_refused_again_and_again_is_as_near_as_when_last_seen() {
        let hitters = Hitters::new(1);
        let count = |added, near: &[(u32, u64)]| {
            let nearness = |(limit, left)| Nearness {
                limit,
                left,
                of: 100,
            };
            let near = near.iter().copied().map(nearness).collect();
            hitters.count(7, added, &near, || "seven");
        };
        let refused = Some((Measure::Refused, 1));
        let nearest = || -> Vec<_> {
            let nearest = hitters.nearest().into_iter();
            nearest
                .map(|it| (it.nearness.limit, it.nearness.left))
                .collect()
        };
        count(refused, &[(0, 0), (1, 0)]);
        count(refused, &[(0, 0), (1, 0), (99, 0)]);
        assert_eq!(nearest(), [(0, 0), (1, 0), (99, 0)]);
        count(None, &[(1, 5)]);
        assert_eq!(nearest(), [(0, 0), (99, 0), (1, 5)]);
        count(refused, &[(1, 0)]);
        assert_eq!(nearest(), [(0, 0), (1, 0), (99, 0)]);
        // Limit 0 refuses a request in each turn, so it stays listed. The other limits are listed for only a minute.
        for _ in 0..2 * NEAR_TURNS {
            hitters.turn();
            count(refused, &[(0, 0)]);
        }
        assert_eq!(nearest(), [(0, 0)]);
        let top = hitters.top().start;
        let refused = top[Measure::Refused as usize].total();
        assert_eq!(refused, 3 + 2 * u64::from(NEAR_TURNS));
    }

    #[test]
    fn who_is_near_is_known_once_and_for_a_minute() {
        let hitters = Hitters::new(2);
        let nearness = |limit, left| Nearness {
            limit,
            left,
            of: 100,
        };
        let near = |key, nearness, name| {
            hitters.count(key, None, &[nearness].into_iter().collect(), || name);
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    near(7, nearness(0, 20), "seven");
                    near(7, nearness(1, 5), "seven");
                });
            }
        });
        near(8, nearness(0, 0), "eight");
        let nearest = || -> Vec<_> {
            let nearest = hitters.nearest().into_iter();
            nearest
                .map(|it| (it.name, it.nearness.limit, it.nearness.left))
                .collect()
        };
        assert_eq!(
            nearest(),
            [("eight", 0, 0), ("seven", 1, 5), ("seven", 0, 20)]
        );
        for _ in 0..NEAR_TURNS {
            hitters.turn();
        }
        near(8, nearness(0, 3), "eight");
        assert_eq!(nearest().len(), 3, "a minute is not over");
        hitters.turn();
        assert_eq!(nearest(), [("eight", 0, 3)]);
        for key in 0..100_000 {
            near(key, nearness(0, 1), "many");
        }
        assert!(nearest().len() <= 2 * 512);
    }
}
