//! The registry of the holds of this process.

mod here;
mod hold;
mod unanswered;
mod watchers;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::Charge;
use crate::table::Table;
use here::Here;
pub(crate) use hold::{Hold, Home, Renewed, State};
pub(crate) use unanswered::{Settlement, Unanswered};
pub(crate) use watchers::Watchers;

/// The most holds that this process keeps after their requests have ended.
const MOST_KEPT: usize = 100_000;

/// All holds of this process.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    holds: Mutex<HashMap<u64, Hold>>,
    // The number of holds that outlive their requests.
    kept: AtomicUsize,
    next: AtomicU64,
    /// The number of calls to Redis in the background, such as ends of holds.
    pub(crate) on_the_way: AtomicUsize,
    /// Ends that Redis has not answered.
    pub(crate) unanswered: Unanswered,
    /// Tracks the holds counted in this process's memory, including copies of Redis holds while Redis does not answer.
    here: Here,
    resetting: AtomicUsize,
    /// Notified if holds should be renewed at once.
    pub(crate) wanted: Notify,
    /// Tasks that wait for settlements, by key.
    pub(crate) watchers: Watchers,
    /// Notified when a hold was settled or renewed, or a call in the background has ended.
    pub(crate) progress: Notify,
}

/// The guard of a reset that is under way ([`Registry::resetting`]).
pub(crate) struct Resetting<'a>(&'a AtomicUsize);

impl Drop for Resetting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Registry {
    /// Adds a hold. `added` runs before any other access to the hold.
    pub(crate) fn add(&self, hold: Hold, added: impl FnOnce(&Hold)) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut holds = self.holds.lock();
        self.here.added(&hold);
        added(&hold);
        holds.insert(id, hold);
        id
    }

    /// Runs `look` on all holds under the lock. The flag is true while holds are being reset.
    pub(crate) fn with_all<T>(&self, look: impl FnOnce(&mut HashMap<u64, Hold>, bool) -> T) -> T {
        let mut holds = self.holds.lock();
        look(&mut holds, self.resetting.load(Ordering::SeqCst) > 0)
    }

    /// Marks the holds under these keys as not renewed, because Redis may have lost them.
    pub(crate) fn lose(&self, charges: &[Charge<'_>]) {
        for hold in self.holds.lock().values_mut() {
            let key = hold.charge().limit_key();
            if matches!(hold.home, Home::Redis) && charges.iter().any(|it| it.limit_key() == key) {
                hold.renewed = None;
            }
        }
    }

    /// Begins a reset of holds. Until the guard is dropped, holds count as missing on every server.
    pub(crate) fn resetting(&self) -> Resetting<'_> {
        self.resetting.fetch_add(1, Ordering::SeqCst);
        Resetting(&self.resetting)
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.holds.lock().keys().copied().collect()
    }

    /// Whether there are no holds, no unanswered ends and no calls in the background.
    pub(crate) fn is_idle(&self) -> bool {
        let is_all_said = self.on_the_way.load(Ordering::Relaxed) == 0;
        is_all_said && self.unanswered.count() == 0 && self.holds.lock().is_empty()
    }

    /// Keeps a hold for at most `time` after its request has ended. Returns false if there are too many such holds.
    pub(crate) fn keep(&self, id: u64, time: Duration) -> bool {
        if self.kept.load(Ordering::Relaxed) >= MOST_KEPT {
            return false;
        }
        let mut holds = self.holds.lock();
        if let Some(hold) = holds.get_mut(&id) {
            hold.kept_until = Some(Instant::now() + time);
            self.kept.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Returns the kept holds whose `kept_until` has passed, and no longer counts them as kept.
    pub(crate) fn over(&self) -> Vec<u64> {
        if self.kept.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        let now = Instant::now();
        let mut holds = self.holds.lock();
        let mut over = Vec::new();
        for (id, hold) in holds.iter_mut() {
            if hold.kept_until.is_some_and(|until| until <= now) {
                hold.kept_until = None;
                over.push(*id);
            }
        }
        self.kept.fetch_sub(over.len(), Ordering::Relaxed);
        over
    }

    /// Removes a hold, and returns it with the cost of its end. `None` if the end has to wait for a renewal that is under way.
    pub(crate) fn end(&self, id: u64, used: Option<u64>, memory: &Table) -> Option<(Hold, u64)> {
        let mut holds = self.holds.lock();
        let hold = holds.get_mut(&id)?;
        let used = hold.used(used);
        // If the end were sent now, a renewal that arrives after it would take the hold again.
        if matches!(hold.state, State::Renewing) {
            hold.state = State::Ended(used);
            // The copy in this process ends at once.
            self.here.drop_copy(hold, memory);
            return None;
        }
        let hold = holds.remove(&id)?;
        self.here.removed(&hold);
        Some((hold, used))
    }

    /// Returns the holds that are due for renewal, and marks them as under renewal. A hold of `concurrency` in Redis is also due if
    /// `is_lost` returns true for it.
    pub(crate) fn due(&self, is_lost: impl Fn(&Hold) -> bool) -> Vec<(u64, Hold)> {
        let mut holds = self.holds.lock();
        let mut due = Vec::new();
        for (id, hold) in holds.iter_mut() {
            if hold.is_due()
                || hold.is_in_redis() && matches!(hold.state, State::Held) && is_lost(hold)
            {
                hold.state = State::Renewing;
                hold.may_be_there = true;
                due.push((*id, hold.clone()));
            }
        }
        due
    }

    /// Ends a renewal. If it succeeded, records its time and connection, and drops the copy in `memory`. Returns the hold and the cost of
    /// its end if the request ended meanwhile.
    pub(crate) fn renewed(
        &self,
        id: u64,
        renewed: Option<Renewed>,
        memory: &Table,
    ) -> Option<(Hold, u64)> {
        let mut holds = self.holds.lock();
        let hold = holds.get_mut(&id)?;
        if let Some(renewed) = renewed {
            hold.renewed = Some(renewed.sent);
            hold.connection = renewed.connection;
            self.here.drop_copy(hold, memory);
        }
        let State::Ended(used) = hold.state else {
            hold.state = State::Held;
            return None;
        };
        let hold = holds.remove(&id)?;
        self.here.removed(&hold);
        Some((hold, used))
    }
}
