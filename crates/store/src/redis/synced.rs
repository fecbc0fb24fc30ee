//! Counts of mode `synced`: this gateway counts by itself, and exchanges counts with Redis at intervals.
//!
//! A charge is decided in this process, by this gateway's own count and by the counts of other gateways in Redis's last answer. The first
//! request of a key does not wait, but starts an exchange at once. If a due exchange fails, each limit's `on_failure` decides until the
//! next answer. The gateway counts meanwhile, and sends Redis the counts when Redis answers again.
//!
//! - [`entry`]: the [`Tally`] of one key, and when its exchange is due; [`due`]: the keys that are due; [`table`]: all keys
//! - [`limits`]: the overshoot of limits; [`exchange`]: the calls to Redis

mod due;
mod entry;
mod exchange;
mod limits;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_core::{Micros, Quota, Tally, Verdict};
use tidegate_redis::Gateways;

use super::access::Access;
use crate::{Charge, OnFailure, Outlook, StoreError};
use entry::{Due, Entry};
use table::Table;

/// The most keys that this gateway counts. They take about 30 MB.
const MAX_KEYS: usize = 100_000;

/// The pause between two looks at the exchanges of a start.
const LOADED: Duration = Duration::from_millis(5);

/// All counts of this gateway.
#[derive(Debug)]
pub(super) struct Synced {
    access: Access,
    gateways: Arc<Gateways>,
    table: Table,
    // The number of the next call.
    next: AtomicU64,
    exchanges: AtomicU64,
    failures: AtomicU64,
    no_place: AtomicU64,
    // The error of the last failed call.
    error: Mutex<Option<StoreError>>,
}

/// The answer of a limit that this process counts. The charge is counted unless the answer is a refusal or `NoRoom`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The counts in this process gave the verdict.
    Here(Verdict),
    /// The limit's `on_failure` decided, because Redis does not answer. `None` if `on_failure` is `open`.
    Alone(Option<Verdict>),
    /// The table has no place for the key, so Redis decides, as for an exact limit.
    NoRoom,
}

impl Reply {
    pub(super) const fn verdict(self) -> Option<Verdict> {
        match self {
            Self::Here(verdict) => Some(verdict),
            Self::Alone(verdict) => verdict,
            Self::NoRoom => None,
        }
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.verdict().is_some_and(|verdict| !verdict.allowed)
    }
}

/// The keys, the calls and the overshoot of synced limits, since start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncedUse {
    /// Keys that this process counts now, at most 100,000.
    pub keys: usize,
    /// Decisions that Redis had to make because this process had no place for another key.
    pub no_place: u64,
    /// Exchanges that succeeded: calls with the counts of up to 32 keys each.
    pub exchanges: u64,
    /// Exchanges that failed.
    pub failures: u64,
    /// The longest time that a key has waited for its exchange.
    pub waiting: Duration,
    /// The overshoot of each limit that requests have used, sorted by name.
    pub overshoots: Vec<Overshoot>,
}

/// The units of all gateways together beyond a limit, by the answers to this gateway's exchanges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overshoot {
    /// The limit's name.
    pub limit: String,
    /// The largest excess of one key over the limit.
    pub max: u64,
    /// The sum of all units beyond the limit, of all keys.
    pub total: u64,
}

impl Synced {
    /// Creates empty counts. The counts are exchanged under the ID `gateway`. `every`, a
    /// millisecond at least, is the interval of a limit that has no interval itself.
    pub(super) fn new(
        access: Access,
        gateways: Arc<Gateways>,
        every: Duration,
        gateway: &Arc<String>,
    ) -> Self {
        Self {
            access,
            gateways,
            table: Table::new(MAX_KEYS, every.max(Duration::from_millis(1)), gateway),
            next: AtomicU64::new(1),
            exchanges: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            no_place: AtomicU64::new(0),
            error: Mutex::default(),
        }
    }

    /// Subtracts the cost of a refused request from the window that started at `start`.
    pub(super) fn uncount(&self, charge: &Charge<'_>, start: Micros) {
        self.table.with_known(charge, Due::Turn, |entry| {
            entry.tally.uncount(charge.cost, start);
        });
    }

    /// Sends counts under the ID `gateway` from now on. Counts that Redis already has from this gateway now count as counts of another
    /// gateway.
    pub(super) fn leave_told(&self, gateway: &Arc<String>) {
        self.table.leave_told(gateway);
    }

    /// Sends the counts of all keys again, even of keys without new requests, because Redis has lost its data.
    pub(super) fn tell_again(&self) {
        self.table.tell_again();
    }

    fn error(&self) -> StoreError {
        self.error.lock().clone().unwrap_or(StoreError::NotAsked)
    }

    /// Whether the table may take more keys without requests. Half of the places are left for keys with requests.
    pub(super) fn may_load(&self) -> bool {
        self.table.usage().keys < MAX_KEYS / 2
    }

    /// Adds a key that this gateway has no request of yet, and makes its exchange due at once. Has no effect if there is no place for it.
    pub(super) fn load(&self, charge: &Charge<'_>) {
        let shards = &self.access.caller.shards;
        let now = shards.now(&charge.key.tag).unwrap_or_else(crate::now);
        self.table.with(charge, now, || false, |_| ((), false));
    }

    /// Waits until no key waits for an exchange.
    pub(super) async fn loaded(&self) {
        while !self.table.usage().waiting.is_zero() {
            tokio::time::sleep(LOADED).await;
        }
    }

    /// Counts a charge, if the last counts of all gateways leave room for it. Returns the start of its window as well.
    pub(super) fn reserve(&self, charge: &Charge<'_>) -> Result<(Reply, Micros), StoreError> {
        // Until the gateways agree on the secret, keys may change, because they are hashes with this secret.
        self.access.secret.check()?;
        let tag = &charge.key.tag;
        let shards = &self.access.caller.shards;
        let now = shards.now(tag).unwrap_or_else(crate::now);
        let fails = || shards.fails(tag);
        let reserved = self.table.with(charge, now, fails, |entry| {
            let reply = self.count(entry, charge, now);
            let refused = reply.as_ref().is_none_or(Reply::is_refusal);
            (reply.map(|reply| (reply, entry.tally.start())), refused)
        });
        match reserved {
            Some(reserved) => reserved.ok_or_else(|| self.error()),
            None => {
                self.no_place.fetch_add(1, Ordering::Relaxed);
                Ok((Reply::NoRoom, 0))
            }
        }
    }

    /// Counts a charge by the last counts of all gateways, or by its limit's `on_failure`. `None` if the policy is `closed`.
    fn count(&self, entry: &mut Entry, charge: &Charge<'_>, now: Micros) -> Option<Reply> {
        let (quota, cost) = (charge.limit.quota(), charge.cost);
        if !entry.is_silent {
            return Some(Reply::Here(entry.tally.charge(quota, cost, now)));
        }
        match charge.limit.on_failure() {
            OnFailure::Local => {
                let gateways = self.gateways.count();
                let verdict = entry.tally.charge_share(quota, gateways, cost, now);
                Some(Reply::Alone(Some(verdict)))
            }
            OnFailure::Open => {
                entry.tally.count(cost, now);
                Some(Reply::Alone(None))
            }
            OnFailure::Closed => None,
        }
    }

    /// Returns the verdict on a charge of a request that another limit refuses, by the counts in this process. `None` if there are no
    /// counts, or if Redis does not answer. Counts no unit.
    pub(super) fn look_beside(&self, charge: &Charge<'_>) -> Option<Verdict> {
        let (shards, tag) = (&self.access.caller.shards, &charge.key.tag);
        if shards.fails(tag) {
            return None;
        }
        self.on_copy(charge, Tally::charge)
            .map(|(_, verdict)| verdict)
    }

    /// Returns the capacity of this gateway's share, and the outlook of a charge by this share. `None` if there are no counts of its key.
    pub(super) fn look(&self, charge: &Charge<'_>) -> Option<(u64, Outlook)> {
        let gateways = self.gateways.count();
        let (now, verdict) = self.on_copy(charge, |tally, quota, cost, now| {
            tally.charge_share(quota, gateways, cost, now)
        })?;
        let (capacity, here) = (charge.limit.quota().divided(gateways).capacity(), true);
        Some((capacity, Outlook { now, verdict, here }))
    }

    /// Charges a copy of a key's counts. Returns the time by Redis's clock, and the verdict, whose `remaining` excludes the charge.
    fn on_copy(
        &self,
        charge: &Charge<'_>,
        count: impl FnOnce(&mut Tally, &Quota, u64, Micros) -> Verdict,
    ) -> Option<(Micros, Verdict)> {
        let mut tally = self.table.tally(charge)?;
        let shards = &self.access.caller.shards;
        let now = shards.now(&charge.key.tag).unwrap_or_else(crate::now);
        let mut verdict = count(&mut tally, charge.limit.quota(), charge.cost, now);
        if verdict.allowed {
            verdict.remaining += charge.cost;
        }
        Some((now, verdict))
    }

    /// Resets these keys in this process, after their reset in Redis.
    pub(super) fn forget(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            let table = &self.table;
            table.with_known(charge, Due::Now, |entry| entry.tally.forget());
        }
    }

    /// Returns the keys, the calls and the overshoot of synced limits.
    pub(super) fn usage(&self) -> SyncedUse {
        SyncedUse {
            no_place: self.no_place.load(Ordering::Relaxed),
            exchanges: self.exchanges.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            ..self.table.usage()
        }
    }
}
