//! The list of what requests of this process hold.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Micros;
use tokio::sync::Notify;

use super::{Home, Unanswered, Watchers};
use crate::{Charge, Limit, Subject};

/// A lease is renewed when this part of it is over.
const RENEWED_AFTER: u32 = 3;

/// The most charges that are held though their requests have ended.
const MOST_KEPT: usize = 100_000;

/// Everything that requests of this process hold.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    holds: Mutex<HashMap<u64, Hold>>,
    // How many of them have an end of their own.
    kept: AtomicUsize,
    next: AtomicU64,
    /// What is being given back and settled in Redis.
    pub(super) on_the_way: AtomicUsize,
    /// Settlements that Redis has not answered.
    pub(super) unanswered: Unanswered,
    /// Who waits for settlements, by key.
    pub(super) watchers: Watchers,
    /// Told whenever something was settled or given back, for the end of the process.
    pub(super) progress: Notify,
}

#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) limit: Arc<Limit>,
    pub(super) subject: Subject,
    pub(super) cost: u64,
    pub(super) home: Home,
    /// The ID of a reservation.
    pub(super) id: u64,
    /// The receipt of the charge.
    pub(super) receipt: Micros,
    /// By the clock of its home.
    pub(super) lapse: Micros,
    pub(super) renewed: Instant,
    pub(super) state: State,
    /// When it ends; none: with its request.
    pub(super) kept_until: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Held,
    /// It is known under another time in a moment.
    Renewing,
    /// It ended while it was being renewed, and has come to so much.
    Ended(u64),
}

impl Hold {
    pub(super) fn charge(&self) -> Charge<'_> {
        Charge {
            limit: &self.limit,
            subject: self.subject,
            cost: self.cost,
        }
    }

    pub(super) fn is_due(&self) -> bool {
        let lease = Duration::from_micros(self.limit.lease().unwrap_or(Micros::MAX));
        matches!(self.state, State::Held) && self.renewed.elapsed() >= lease / RENEWED_AFTER
    }
}

impl Registry {
    pub(super) fn add(&self, hold: Hold) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.holds.lock().insert(id, hold);
        id
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.holds.lock().keys().copied().collect()
    }

    /// Whether nothing is held, nor on its way.
    pub(super) fn is_idle(&self) -> bool {
        let is_all_said = self.on_the_way.load(Ordering::Relaxed) == 0;
        is_all_said && self.unanswered.count() == 0 && self.holds.lock().is_empty()
    }

    /// Holds a charge for `time` and no longer; false if there are too many of those.
    pub(super) fn keep(&self, id: u64, time: Duration) -> bool {
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
    pub(super) fn over(&self) -> Vec<u64> {
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
    pub(super) fn end(&self, id: u64, used: Option<u64>) -> Option<(Hold, u64)> {
        let mut holds = self.holds.lock();
        let hold = holds.get_mut(&id)?;
        let used = used.unwrap_or(hold.cost);
        // A reservation has an ID, by which it is found whatever becomes of the renewal.
        let is_place = hold.limit.reserves().is_none();
        if is_place && matches!(hold.state, State::Renewing) {
            hold.state = State::Ended(used);
            return None;
        }
        holds.remove(&id).map(|hold| (hold, used))
    }

    /// What is due to be renewed, which from now on is being renewed.
    pub(super) fn due(&self) -> Vec<(u64, Hold)> {
        let mut holds = self.holds.lock();
        let due = holds.iter_mut().filter(|(_, hold)| hold.is_due());
        due.map(|(id, hold)| {
            hold.state = State::Renewing;
            (*id, hold.clone())
        })
        .collect()
    }

    /// Notes when it lapses now, if that is known; what is to be given up, if it ended meanwhile.
    pub(super) fn renewed(&self, id: u64, lapse: Option<Micros>) -> Option<(Hold, u64)> {
        let mut holds = self.holds.lock();
        let hold = holds.get_mut(&id)?;
        if let Some(lapse) = lapse {
            hold.lapse = lapse;
            hold.renewed = Instant::now();
        }
        let State::Ended(used) = hold.state else {
            hold.state = State::Held;
            return None;
        };
        holds.remove(&id).map(|hold| (hold, used))
    }
}
