//! The rate of calls about requests that are refused already.
//!
//! A request that a limit of this process or a recent answer of Redis refuses needs no further answer. A call would only name the other
//! limits that refuse, and start their blocks. So each key has one such call a second at most, and all keys together have a bounded number.
//! So even a flood of refused requests for many keys causes no more calls than this number.

use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;

use super::{LONGEST, micros};
use crate::charge::LimitKey;

/// The number of keys whose last call is recorded, a power of two. A key may replace another key, which may then get its next call early.
const PLACES: usize = 1 << 12;

/// The most calls in a second, for all keys.
const PER_SECOND: u32 = 400;

/// The low bits of an entry: a part of its key's hash. The other bits are the time of the last call, in ms.
const TAG: u64 = (1 << 24) - 1;

/// The times of the last calls.
#[derive(Debug)]
pub(super) struct Looks {
    start: Instant,
    // Seeded per process, so that a client cannot choose keys that all have one place.
    hasher: RandomState,
    last: Box<[AtomicU64]>,
    // The time from which another call is allowed, in us. Each call moves it by a second divided by `PER_SECOND`.
    paid_off: AtomicU64,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            hasher: RandomState::default(),
            last: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            paid_off: AtomicU64::new(0),
        }
    }
}

impl Looks {
    /// Returns whether a call about this key may be made now.
    pub(super) fn is_due(&self, key: &LimitKey, now: Instant) -> bool {
        let (place, tag) = self.place(key);
        let now = self.time(now);
        is_over(place.load(Ordering::Relaxed), tag, now)
            && self.paid_off.load(Ordering::Relaxed) <= now
    }

    /// Returns true to one request, which calls Redis about this key, if a call may be made now.
    pub(super) fn claim(&self, key: &LimitKey, now: Instant) -> bool {
        let (place, tag) = self.place(key);
        let now = self.time(now);
        let last = place.load(Ordering::Relaxed);
        let next = (now / 1_000) << TAG.count_ones() | tag;
        is_over(last, tag, now)
            && self.pay(now)
            && place
                .compare_exchange(last, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Counts a call about any key toward the rate. Returns false if no call may be made now.
    pub(super) fn take(&self, now: Instant) -> bool {
        self.pay(self.time(now))
    }

    /// Counts a call like [`Self::take`], at a time in us.
    fn pay(&self, now: u64) -> bool {
        let second = micros(Duration::from_secs(1));
        let paid = self
            .paid_off
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid_off| {
                let next =
                    paid_off.max(now.saturating_sub(second)) + second / u64::from(PER_SECOND);
                (paid_off <= now).then_some(next)
            });
        paid.is_ok()
    }

    /// Returns the entry of a key, and the part of the key's hash that the entry contains.
    fn place(&self, key: &LimitKey) -> (&AtomicU64, u64) {
        let hash = self.hasher.hash_one(key);
        let place = (hash >> 32) as usize % PLACES;
        (&self.last[place], hash & TAG)
    }

    /// Returns a time in us. The first time is one second, so that an empty entry counts as old.
    fn time(&self, at: Instant) -> u64 {
        micros(at.saturating_duration_since(self.start) + LONGEST)
    }
}

/// Returns whether an entry is of another key, or a second old.
const fn is_over(last: u64, tag: u64, now: u64) -> bool {
    let at = last >> TAG.count_ones();
    last & TAG != tag || now / 1_000 >= at + LONGEST.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn key(client: u64) -> LimitKey {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&client.to_be_bytes());
        LimitKey {
            limit: 7,
            key: Key { tag, rest: [0; 16] },
        }
    }

    #[test]
    fn a_key_is_looked_at_once_a_second() {
        let (looks, now) = (Looks::default(), Instant::now());
        for second in 0..3 {
            let now = now + Duration::from_secs(second);
            assert!(looks.is_due(&key(1), now));
            assert!(looks.claim(&key(1), now));
            for ms in [0, 1, 999] {
                let now = now + Duration::from_millis(ms);
                assert!(!looks.is_due(&key(1), now));
                assert!(!looks.claim(&key(1), now));
            }
        }
    }

    #[test]
    fn ever_new_keys_are_looked_at_so_many_times_a_second() {
        let (looks, now) = (Looks::default(), Instant::now());
        let mut keys = (0..).map(key);
        let mut claimed = |now| {
            let keys = keys.by_ref().take(10_000);
            keys.filter(|key| looks.claim(key, now)).count()
        };
        // Those of a second that was quiet, and the first of the next.
        let first = claimed(now);
        assert!((1..=401).contains(&first), "{first}");
        assert_eq!(claimed(now), 0);
        let later = claimed(now + Duration::from_secs(1));
        assert!((390..=401).contains(&later), "{later}");
        assert!(!looks.is_due(&key(1_000_000), now + Duration::from_secs(1)));
    }
}
