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

/// The most charges that are held though their requests have ended.
const MOST_KEPT: usize = 100_000;

/// Everything that requests of this process hold.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    holds: Mutex<HashMap<u64, Hold>>,
    // How many of them have an end of their own.
    kept: AtomicUsize,
    next: AtomicU64,
    /// Ends that are being sent to Redis.
    pub(crate) on_the_way: AtomicUsize,
    /// Ends that Redis has not answered.
    pub(crate) unanswered: Unanswered,
    /// The holds that this process counts.
    here: Here,
    resetting: AtomicUsize,
    /// Told if holds should be renewed at once.
    pub(crate) wanted: Notify,
    /// Who waits for settlements, by key.
    pub(crate) watchers: Watchers,
    /// Told whenever something was settled, given back or renewed.
    pub(crate) progress: Notify,
}

/// Guard of a reset of holds.
pub(crate) struct Resetting<'a>(&'a AtomicUsize);

impl Drop for Resetting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Registry {
    /// Adds it; `added` is run before anything else can be done to it.
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

    /// Holds under these keys are not known to be in Redis any more.
    pub(crate) fn lose(&self, charges: &[Charge<'_>]) {
        for hold in self.holds.lock().values_mut() {
            let key = hold.charge().limit_key();
            let is_of = |charge: &Charge<'_>| charge.limit_key() == key;
            if matches!(hold.home, Home::Redis) && charges.iter().any(is_of) {
                hold.renewed = None;
            }
        }
    }

    /// No server is sure to have all holds until this is dropped: some are being reset.
    pub(crate) fn resetting(&self) -> Resetting<'_> {
        self.resetting.fetch_add(1, Ordering::SeqCst);
        Resetting(&self.resetting)
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.holds.lock().keys().copied().collect()
    }

    /// Whether nothing is held, nor on its way.
    pub(crate) fn is_idle(&self) -> bool {
        let is_all_said = self.on_the_way.load(Ordering::Relaxed) == 0;
        is_all_said && self.unanswered.count() == 0 && self.holds.lock().is_empty()
    }

    /// Holds a charge for `time` and no longer; false if there are too many of those.
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

    /// What is held no longer, having had an end of its own.
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

    /// What is to be given up now, and what it has come to; none if that has to wait for its renewal.
    pub(crate) fn end(&self, id: u64, used: Option<u64>, memory: &Table) -> Option<(Hold, u64)> {
        let mut holds = self.holds.lock();
        let hold = holds.get_mut(&id)?;
        let used = hold.used(used);
        // A renewal that comes later would take it again.
        if matches!(hold.state, State::Renewing) {
            hold.state = State::Ended(used);
            // Here it is free at once.
            self.here.drop_copy(hold, memory);
            return None;
        }
        let hold = holds.remove(&id)?;
        self.here.removed(&hold);
        Some((hold, used))
    }

    /// Returns the holds that are due, and marks them as under renewal. A hold of `concurrency` is also due if `is_lost` is true of it.
    pub(crate) fn due(&self, is_lost: impl Fn(&Hold) -> bool) -> Vec<(u64, Hold)> {
        let mut holds = self.holds.lock();
        let is_due = |hold: &Hold| {
            let is_lost = || matches!(hold.state, State::Held) && is_lost(hold);
            hold.is_due() || hold.is_in_redis() && is_lost()
        };
        let due = holds.iter_mut().filter(|(_, hold)| is_due(hold));
        due.map(|(id, hold)| {
            hold.state = State::Renewing;
            hold.may_be_there = true;
            (*id, hold.clone())
        })
        .collect()
    }

    /// Notes when it was renewed, if it was, and over which connection; what is to be given up, if it ended meanwhile.
    /// `memory` counts no copy any more then.
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
