//! Which requests are traced for which no trusted peer has decided that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::random;

/// Takes some of many, and not more than so many per second.
#[derive(Debug)]
pub(super) struct Sampler {
    /// How many of a million.
    share: u32,
    most: u32,
    since: Instant,
    /// The second, counted from `since`, and how many were taken in it.
    taken: AtomicU64,
}

impl Sampler {
    pub(super) fn new(share: u32, most: u32) -> Self {
        Self {
            share,
            most,
            since: Instant::now(),
            taken: AtomicU64::new(0),
        }
    }

    /// Whether this one is taken.
    pub(super) fn takes(&self) -> bool {
        random::happens(self.share) && self.takes_at(self.since.elapsed().as_secs())
    }

    fn takes_at(&self, second: u64) -> bool {
        let second = second & u64::from(u32::MAX);
        let next = |taken: u64| {
            let count = match taken >> 32 == second {
                true => taken & u64::from(u32::MAX),
                false => 0,
            };
            (count < u64::from(self.most)).then_some(second << 32 | (count + 1))
        };
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_more_than_so_many_per_second() {
        let sampler = Sampler::new(1_000_000, 3);
        let taken = |second| (0..10).filter(|_| sampler.takes_at(second)).count();
        assert_eq!((taken(0), taken(0), taken(1), taken(7)), (3, 0, 3, 3));
    }
}
