//! The holds that this process counts: the holds in its memory store and, while Redis does not answer, copies of the holds of
//! `concurrency`.
//!
//! In the memory store no hold of a running request lapses. If a hold may have lapsed at the time of a decision, all holds are renewed
//! first. So neither a pause of the process nor a step of its clock loses a hold.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use tidegate_core::{Micros, Quota};

use super::Registry;
use super::hold::{Hold, Home, State};
use crate::Limit;
use crate::table::Table;

/// The holds that this process counts.
#[derive(Debug)]
pub(super) struct Here {
    // No hold lapses before this time, by the clock that decides.
    first: AtomicU64,
    // The number of `concurrency` holds in Redis of which this process counts no copy.
    uncopied: AtomicUsize,
}

impl Default for Here {
    fn default() -> Self {
        Self {
            first: AtomicU64::new(Micros::MAX),
            uncopied: AtomicUsize::new(0),
        }
    }
}

impl Here {
    /// Updates `first` or `uncopied` after a hold was added to the registry.
    pub(super) fn added(&self, hold: &Hold) {
        match quota_of(hold) {
            Some(_) => _ = self.first.fetch_min(hold.lapse, Relaxed),
            None if hold.is_in_redis() => _ = self.uncopied.fetch_add(1, Relaxed),
            None => {}
        }
    }

    /// Updates `uncopied` after a hold was removed from the registry.
    pub(super) fn removed(&self, hold: &Hold) {
        if hold.is_in_redis() && hold.copy.is_none() {
            self.uncopied.fetch_sub(1, Relaxed);
        }
    }

    /// Drops this process's copy of a `concurrency` hold that belongs in Redis.
    pub(super) fn drop_copy(&self, hold: &mut Hold, memory: &Table) {
        if hold.is_in_redis()
            && let Some(quota) = hold.copy.take()
        {
            memory.end(&hold.charge(), &quota, hold.id, 0, crate::now());
            self.uncopied.fetch_add(1, Relaxed);
        }
    }

    /// Renews all holds that this process counts.
    fn renew(&self, holds: &mut HashMap<u64, Hold>, memory: &Table, now: Micros) {
        let mut first = Micros::MAX;
        for hold in holds.values() {
            if let Some(quota) = quota_of(hold) {
                let lapse = memory.renew(&hold.charge(), &quota, hold.id, now);
                first = first.min(lapse.unwrap_or(Micros::MAX));
            }
        }
        self.first.store(first, Relaxed);
    }
}

/// Returns the quota by which this process counts a hold. `None` if it does not count the hold.
fn quota_of(hold: &Hold) -> Option<Quota> {
    match hold.home {
        Home::Here(quota) => Some(quota),
        Home::Redis => hold.copy.as_deref().copied(),
    }
}

impl Registry {
    /// Whether a hold of a running request may have lapsed in the memory store by the time `now`.
    pub(crate) fn may_lapse(&self, now: Micros) -> bool {
        now >= self.here.first.load(Relaxed)
    }

    /// Renews all holds that this process counts, if any hold of a running request may have lapsed by `now`, the time of a decision.
    pub(crate) fn keep_here(&self, memory: &Table, now: Micros) {
        if !self.may_lapse(now) {
            return;
        }
        self.with_all(|holds, _| {
            // Another decision may have renewed the holds meanwhile.
            if now >= self.here.first.load(Relaxed) {
                self.here.renew(holds, memory, now);
            }
        });
    }

    /// Makes this process count the holds of `concurrency` that belong in Redis, while Redis does not answer. `share` returns the quota by
    /// which this process counts a copy of a hold.
    pub(crate) fn count_here(&self, memory: &Table, share: impl Fn(&Limit) -> Quota, now: Micros) {
        if self.here.uncopied.load(Relaxed) == 0 {
            return;
        }
        self.with_all(|holds, _| {
            for hold in holds.values_mut().filter(|hold| hold.is_in_redis()) {
                if hold.copy.is_none() && !matches!(hold.state, State::Ended(_)) {
                    hold.copy = Some(Box::new(share(&hold.limit)));
                    self.here.uncopied.fetch_sub(1, Relaxed);
                }
            }
            self.here.renew(holds, memory, now);
        });
    }

    /// Renews a hold in the memory store, if this process counts it.
    pub(crate) fn renew_here(&self, memory: &Table, hold: &Hold) {
        if let Some(quota) = quota_of(hold) {
            let lapse = memory.renew(&hold.charge(), &quota, hold.id, crate::now());
            self.here
                .first
                .fetch_min(lapse.unwrap_or(Micros::MAX), Relaxed);
        }
    }

    /// Runs a reset of keys in the memory store, and restores the holds of running requests afterwards.
    pub(crate) fn forget_here(&self, memory: &Table, now: Micros, forget: impl FnOnce()) {
        self.with_all(|holds, _| {
            // While `first` is 0, each decision waits for this lock, until the reset is done.
            self.here.first.store(0, Relaxed);
            forget();
            self.here.renew(holds, memory, now);
        });
    }
}
