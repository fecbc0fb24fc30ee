//! Ends of holds that Redis has not answered. An end is sent again until Redis answers, or until it can no longer take effect
//! ([`Hold::matters`]).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::hold::Hold;
use crate::StoreError;

/// The most settlements that are kept: about 25 MB.
const MOST: usize = 100_000;

const _: () = assert!(size_of::<(Order, Settlement)>() <= 256);

/// The least time between two log lines about dropped settlements.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// The time from which a settlement no longer matters, and its number.
type Order = (Instant, u64);

/// The end of a hold, with the cost of its request.
#[derive(Debug)]
pub(crate) struct Settlement {
    pub(crate) hold: Hold,
    pub(crate) used: u64,
    /// The time from which the settlement no longer matters.
    until: Instant,
    /// A serial number, which the settlement gets when it is first kept; 0 before that.
    number: u64,
}

impl Settlement {
    /// Returns the settlement of a hold with this cost. `matters` is the time, from now, after which the settlement no longer matters.
    pub(crate) fn new(hold: Hold, used: u64, matters: Duration) -> Self {
        let now = Instant::now();
        Self {
            hold,
            used,
            until: now.checked_add(matters).unwrap_or(now),
            number: 0,
        }
    }
}

/// All settlements that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Unanswered {
    waiting: Mutex<Waiting>,
    count: AtomicUsize,
    dropped: AtomicU64,
    logged: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Waiting {
    by_end: BTreeMap<Order, Settlement>,
    next: u64,
    /// The last settlement that was sent again. The next round starts with the settlement after it.
    tried: Option<Order>,
}

impl Unanswered {
    /// Keeps a settlement. If more than [`MOST`] are kept, drops the settlement that matters for the shortest time.
    pub(crate) fn add(&self, mut settlement: Settlement) {
        if settlement.until <= Instant::now() {
            return self.end(&settlement);
        }
        let mut waiting = self.waiting.lock();
        if settlement.number == 0 {
            waiting.next += 1;
            settlement.number = waiting.next;
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        let key = (settlement.until, settlement.number);
        waiting.by_end.insert(key, settlement);
        if waiting.by_end.len() > MOST {
            waiting.by_end.pop_first();
            self.count.fetch_sub(1, Ordering::Relaxed);
            drop(waiting);
            self.drop_one("more than 100,000 wait for Redis");
        }
    }

    /// Drops a settlement that can no longer take effect, because of this error.
    pub(crate) fn give_up(&self, settlement: &Settlement, error: &StoreError) {
        self.end(settlement);
        self.drop_one(error);
    }

    /// Counts a dropped settlement, and logs it with the cause, once a minute at most.
    fn drop_one(&self, cause: impl Display) {
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = self.logged.lock();
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY) {
            *logged = Some(Instant::now());
            tracing::warn!(
                dropped,
                %cause,
                "ends of holds are dropped; the holds lapse, and are charged as reserved"
            );
        }
    }

    /// Subtracts from the count a settlement that is answered or no longer matters.
    pub(crate) fn end(&self, settlement: &Settlement) {
        if settlement.number > 0 {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes at most `most` of the settlements that come next. The caller must add each of them again, or [end](Self::end) it. Drops
    /// settlements that no longer matter.
    pub(crate) fn take(&self, most: usize) -> Vec<Settlement> {
        if self.count() == 0 {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock();
        let Waiting { by_end, tried, .. } = &mut *waiting;
        let now = Instant::now();
        while by_end
            .first_key_value()
            .is_some_and(|(key, _)| key.0 <= now)
        {
            by_end.pop_first();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        let behind = tried.map_or(Bound::Unbounded, Bound::Excluded);
        let next = by_end
            .range((behind, Bound::Unbounded))
            .map(|(key, _)| *key);
        let mut keys: Vec<Order> = next.take(most).collect();
        if keys.len() < most
            && let Some(tried) = *tried
        {
            let rest = by_end.range(..=tried).map(|(key, _)| *key);
            keys.extend(rest.take(most - keys.len()));
        }
        *tried = keys.last().copied();
        keys.iter().filter_map(|key| by_end.remove(key)).collect()
    }

    /// Returns the number of settlements that wait for an answer, including taken settlements.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the number of dropped settlements since start.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
