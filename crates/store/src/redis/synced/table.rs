//! All keys that this process counts, and the keys whose exchange is due.
//!
//! The table is bounded. A key is dropped when the counts of this gateway can no longer affect a decision. This module makes no calls.

use std::collections::hash_map;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use tidegate_core::{Micros, Tally, TallyTotals};
use tokio::sync::Notify;

use super::SyncedUse;
use super::due::DueKeys;
use super::entry::{Due, Entry, Telling};
use super::limits::Limits;
use crate::charge::LimitKey;
use crate::sharded::Sharded;
use crate::{Charge, Key};

const ROWS: usize = 64;

/// The keys, in rows with a lock each.
#[derive(Debug)]
pub(super) struct Table {
    rows: Sharded<Row>,
    // The most keys in each row.
    capacity: usize,
    // The interval of a limit that has no interval itself.
    every: Duration,
    limits: Limits,
    // Notified if the exchange of a key is due at once.
    urgent: Notify,
    next_sweep: AtomicUsize,
}

#[derive(Debug)]
struct Row {
    // The ID under which Redis stores the counts of these keys. The ID and the tallies change together, under the row's lock.
    gateway: Arc<String>,
    entries: HashMap<LimitKey, Entry, RandomState>,
    due: DueKeys,
}

impl Table {
    /// Creates a table whose counts are sent under the ID `gateway`.
    pub(super) fn new(max_keys: usize, every: Duration, gateway: &Arc<String>) -> Self {
        Self {
            rows: Sharded::new(ROWS, || Row {
                gateway: gateway.clone(),
                entries: HashMap::default(),
                due: DueKeys::default(),
            }),
            capacity: max_keys.div_ceil(ROWS),
            every,
            limits: Limits::default(),
            urgent: Notify::new(),
            next_sweep: AtomicUsize::new(0),
        }
    }

    /// Runs `act` on the entry of a requested key, and makes its exchange due. `act` also returns whether the request was refused. `None`
    /// if there is no place for the key, or if its limit does not count per window. `fails` returns whether the last call to the key's
    /// server failed. `fails` runs only if the counts of the key are old.
    pub(super) fn with<T>(
        &self,
        charge: &Charge<'_>,
        now: Micros,
        fails: impl FnOnce() -> bool,
        act: impl FnOnce(&mut Entry) -> (T, bool),
    ) -> Option<T> {
        let (key, quota) = (charge.limit_key(), charge.limit.quota());
        let every = charge.limit.sync_every().unwrap_or(self.every);
        let row = &mut *self.rows.lock(&key);
        let is_full = row.entries.len() >= self.capacity;
        let entry = match row.entries.entry(key) {
            hash_map::Entry::Occupied(entry) => entry.into_mut(),
            hash_map::Entry::Vacant(_) if is_full => return None,
            hash_map::Entry::Vacant(place) => {
                let limit = self.limits.get(key.limit, charge.limit);
                row.due.begin(every);
                place.insert(Entry::new(Tally::of(quota, now)?, *quota, every, limit))
            }
        };
        entry.note_quota(quota);
        let is_moved = entry.every != every;
        if is_moved {
            entry.every = every;
            row.due.begin(every);
        }
        let moment = Instant::now();
        let is_old = entry.is_old(moment);
        if is_old {
            entry.is_silent |= fails();
        }
        let (done, refused) = act(entry);
        let due = match entry.due_after(refused, moment) {
            Due::Turn if is_old || is_moved => Due::Now,
            due => due,
        };
        self.list(entry, &mut row.due, key, due, moment);
        Some(done)
    }

    /// Runs `act` on the entry of a key, if there is one, and makes its exchange due.
    pub(super) fn with_known(&self, charge: &Charge<'_>, due: Due, act: impl FnOnce(&mut Entry)) {
        let key = charge.limit_key();
        let row = &mut *self.rows.lock(&key);
        if let Some(entry) = row.entries.get_mut(&key) {
            act(entry);
            let due = if entry.is_silent { Due::Retry } else { due };
            self.list(entry, &mut row.due, key, due, Instant::now());
        }
    }

    /// Returns a copy of the tally of a key.
    pub(super) fn tally(&self, charge: &Charge<'_>) -> Option<Tally> {
        let key = charge.limit_key();
        let row = self.rows.lock(&key);
        row.entries.get(&key).map(|entry| entry.tally.clone())
    }

    /// Makes the exchange due for each key of which Redis had counts of this gateway. Called because Redis has lost these counts.
    pub(super) fn tell_again(&self) {
        for mut row in self.rows.all() {
            self.list_all(&mut row, |entry| entry.tally.has_told());
        }
    }

    /// Sends counts under the ID `gateway` from now on. The counts under the old ID belong to another gateway.
    pub(super) fn leave_told(&self, gateway: &Arc<String>) {
        for mut row in self.rows.all() {
            let row = &mut *row;
            row.gateway = gateway.clone();
            // If a call is under way, Redis may get more counts under the old ID. The entry changes when the call has ended.
            self.list_all(row, |entry| !entry.is_under_way && entry.tally.leave_told());
        }
    }

    /// Makes the exchange due for each key of a row for whose entry `change` returns true.
    fn list_all(&self, row: &mut Row, change: impl Fn(&mut Entry) -> bool) {
        let now = Instant::now();
        for (key, entry) in &mut row.entries {
            if !change(entry) {
                continue;
            }
            let due = if entry.is_silent {
                Due::Retry
            } else {
                Due::Turn
            };
            self.list(entry, &mut row.due, *key, due, now);
        }
    }

    /// Waits until there is a key whose exchange is due at once.
    pub(super) async fn urgent(&self) {
        self.urgent.notified().await;
    }

    /// Begins the exchange of all keys that are due, and returns their counts, and the intervals of all keys. `every` is the interval whose
    /// turn it is, for [`Due::Turn`].
    pub(super) fn take(&self, due: Due, every: Duration) -> (Vec<Telling>, BTreeSet<Duration>) {
        let (mut tellings, mut intervals) = (Vec::new(), BTreeSet::new());
        for mut row in self.rows.all() {
            let row = &mut *row;
            for key in row.due.take(due, every) {
                // A key with a call under way is due again when the call is over. A key that changed its interval is in another list, too.
                if let Some(entry) = row.entries.get_mut(&key)
                    && entry.due == Some(due)
                    && !entry.is_under_way
                {
                    tellings.push(entry.tell(key, &row.gateway));
                }
            }
            intervals.extend(row.due.intervals());
        }
        (tellings, intervals)
    }

    /// Returns the counts of all keys whose newest counts Redis lacks, and marks their exchanges as under way. Keys with a call under way
    /// are included, because no task waits for the answer any more.
    pub(super) fn take_untold(&self) -> Vec<Telling> {
        let mut tellings = Vec::new();
        for mut row in self.rows.all() {
            let row = &mut *row;
            for (key, entry) in &mut row.entries {
                if !entry.tally.is_told(&entry.quota) {
                    tellings.push(entry.tell(*key, &row.gateway));
                }
            }
        }
        tellings
    }

    /// Applies Redis's answer to a call that was sent at `sent`. `now` is the time of the answer by Redis's clock.
    pub(super) fn learn(&self, telling: &Telling, totals: TallyTotals, sent: Instant, now: Micros) {
        self.over(telling, |entry| entry.learn(totals, sent, now));
    }

    /// Records that a call failed.
    pub(super) fn failed(&self, telling: &Telling) {
        self.over(telling, |entry| Some(entry.failed()));
    }

    /// Drops from one row the keys whose counts can no longer affect a decision. Each call sweeps the next row. `now` returns the time by
    /// the clock of a key's server.
    pub(super) fn sweep(&self, now: impl Fn(&Key) -> Micros) {
        let next = self.next_sweep.fetch_add(1, Ordering::Relaxed) % self.rows.count();
        let row = &mut *self.rows.at(next);
        row.entries.retain(|key, entry| {
            entry.is_under_way || entry.tally.matters(&entry.quota, now(&key.key))
        });
        if row.entries.capacity() > 4 * row.entries.len().max(64) {
            row.entries.shrink_to(2 * row.entries.len());
        }
        let entries = &row.entries;
        row.due
            .retain(|every| entries.values().any(|entry| entry.every == every));
    }

    /// Returns the number of keys, their longest wait, and the overshoot of limits.
    pub(super) fn usage(&self) -> SyncedUse {
        let mut usage = SyncedUse {
            overshoots: self.limits.overshoots(),
            ..SyncedUse::default()
        };
        for row in self.rows.all() {
            let entries = &row.entries;
            usage.keys += entries.len();
            let since = entries.values().filter_map(|entry| entry.waiting).min();
            let waiting = since.map(|since| since.elapsed());
            usage.waiting = usage.waiting.max(waiting.unwrap_or_default());
        }
        usage
    }

    /// Ends a call about a key. `end` returns the time of the key's next exchange, if one is due.
    fn over(&self, telling: &Telling, end: impl FnOnce(&mut Entry) -> Option<Due>) {
        let row = &mut *self.rows.lock(&telling.key);
        if let Some(entry) = row.entries.get_mut(&telling.key) {
            let mut due = end(entry);
            if telling.gateway != row.gateway && entry.tally.leave_told() {
                due = due.or(Some(Due::Turn));
            }
            if let Some(due) = due {
                self.list(entry, &mut row.due, telling.key, due, Instant::now());
            }
        }
    }

    /// Makes a key due, unless it is due sooner.
    fn list(&self, entry: &mut Entry, keys: &mut DueKeys, key: LimitKey, due: Due, now: Instant) {
        if entry.due >= Some(due) {
            return;
        }
        entry.due = Some(due);
        entry.waiting.get_or_insert(now);
        keys.of(due, entry.every).push(key);
        if due == Due::Now {
            self.urgent.notify_one();
        }
    }
}
