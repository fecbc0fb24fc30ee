//! A bound on the number of events per second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A bound on the number of events per second, without a lock.
#[derive(Debug)]
pub(crate) struct PerSecond {
    most: u32,
    since: Instant,
    /// The upper 32 bits are the current second, counted from `since`. The lower 32 bits are the number of events in this second.
    taken: AtomicU64,
}

impl PerSecond {
    /// Returns a bound of `most` events per second.
    pub(crate) fn new(most: u32) -> Self {
        Self {
            most,
            since: Instant::now(),
            taken: AtomicU64::new(0),
        }
    }

    /// Counts an event and returns true if the bound of this second is not reached. Otherwise returns false.
    pub(crate) fn takes(&self) -> bool {
        self.takes_at(self.since.elapsed().as_secs())
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
        let bound = PerSecond::new(3);
        let taken = |second| (0..10).filter(|_| bound.takes_at(second)).count();
        assert_eq!((taken(0), taken(0), taken(1), taken(7)), (3, 0, 3, 3));
    }
}
