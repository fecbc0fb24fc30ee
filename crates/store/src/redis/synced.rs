//! Counts that this gateway keeps by itself and exchanges with Redis now and then.
//!
//! A charge is decided here, by this gateway's own count and what the others had counted when Redis was heard of last. The
//! first request of a key waits for nothing, but has the key exchanged at once. When an exchange that was due has failed, each
//! limit's `on_failure` says what may be given away meanwhile. Counting goes on, and Redis is told when it is back.
//!
//! - [`entry`]: the [`Tally`] of one key, and when its exchange is due; [`table`]: all keys
//! - [`limits`]: how far they were exceeded; [`exchange`]: the calls

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

/// The most keys that are counted here: about 30 MB.
const MAX_KEYS: usize = 100_000;

/// All counts that are kept here.
#[derive(Debug)]
pub(super) struct Synced {
    access: Access,
    gateways: Arc<Gateways>,
    table: Table,
    every: Duration,
    // The number of the next call.
    next: AtomicU64,
    exchanges: AtomicU64,
    failures: AtomicU64,
    no_place: AtomicU64,
    // Why the last call failed.
    error: Mutex<Option<StoreError>>,
}

/// What a limit that is kept here says of a charge, which is reserved unless that is a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// By what is kept.
    Here(Verdict),
    /// By its `on_failure`, since Redis is silent: one that is open says nothing.
    Alone(Option<Verdict>),
    /// It cannot be kept here: Redis decides, as if the limit were exact.
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

/// What synced limits cost and what they let through, since start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncedUse {
    /// Keys counted here now, at most 100,000.
    pub keys: usize,
    /// Decisions that Redis had to make because there was no place to count.
    pub no_place: u64,
    /// Calls that exchanged the counts of some keys.
    pub exchanges: u64,
    /// Calls that were to do so, and failed.
    pub failures: u64,
    /// How long the key that has waited for its exchange longest has done so.
    pub waiting: Duration,
    /// How far limits were exceeded: those that were asked for, in the order of their names.
    pub overshoots: Vec<Overshoot>,
}

/// How far all gateways together exceeded a limit, as this one saw it when it exchanged counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overshoot {
    /// The limit's name.
    pub limit: String,
    /// The most that one key was beyond the limit.
    pub max: u64,
    /// All that was beyond it, of all keys.
    pub total: u64,
}

impl Synced {
    /// Exchanges `every` so often, a millisecond at least, under the ID of this `gateway`.
    pub(super) fn new(
        access: Access,
        gateways: Arc<Gateways>,
        every: Duration,
        gateway: &Arc<String>,
    ) -> Self {
        let every = every.max(Duration::from_millis(1));
        Self {
            access,
            gateways,
            table: Table::new(MAX_KEYS, every, gateway),
            every,
            next: AtomicU64::new(1),
            exchanges: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            no_place: AtomicU64::new(0),
            error: Mutex::default(),
        }
    }

    /// Uncounts what was counted, in the window that started at `start`, for a request that was refused.
    pub(super) fn uncount(&self, charge: &Charge<'_>, start: Micros) {
        self.table.with_known(charge, Due::Turn, |entry| {
            entry.tally.uncount(charge.cost, start);
        });
    }

    /// What Redis was told until now belongs to another gateway; this one goes on under the ID of `gateway`.
    pub(super) fn leave_told(&self, gateway: &Arc<String>) {
        self.table.leave_told(gateway);
    }

    /// Redis has lost its data: it is told again what it was told of each key, also if nobody asks for that key.
    pub(super) fn tell_again(&self) {
        self.table.tell_again();
    }

    fn error(&self) -> StoreError {
        self.error.lock().clone().unwrap_or(StoreError::NotAsked)
    }

    /// Counts a charge, if what is known of all gateways leaves room for it. In which window it was counted is told as
    /// well.
    pub(super) fn reserve(&self, charge: &Charge<'_>) -> Result<(Reply, Micros), StoreError> {
        // Until it is agreed, keys may not be what they will be.
        self.access.secret.check()?;
        let tag = &charge.key.tag;
        let shards = &self.access.caller.shards;
        let now = shards.now(tag).unwrap_or_else(crate::now);
        let fails = || shards.fails(tag);
        let reserved = self.table.with(charge, now, fails, |entry| {
            let said = self.count(entry, charge, now);
            let refused = said.as_ref().is_none_or(Reply::is_refusal);
            (said.map(|said| (said, entry.tally.start())), refused)
        });
        match reserved {
            Some(reserved) => reserved.ok_or_else(|| self.error()),
            None => {
                self.no_place.fetch_add(1, Ordering::Relaxed);
                Ok((Reply::NoRoom, 0))
            }
        }
    }

    /// Counts a charge by what is known, or by its limit's `on_failure`; nothing if that stays closed.
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

    /// Returns the verdict on a charge of a request that another limit refuses, by the counts here. None without counts or Redis. Counts no
    /// unit.
    pub(super) fn look_beside(&self, charge: &Charge<'_>) -> Option<Verdict> {
        let (shards, tag) = (&self.access.caller.shards, &charge.key.tag);
        if shards.fails(tag) {
            return None;
        }
        self.on_copy(charge, Tally::charge)
            .map(|(_, verdict)| verdict)
    }

    /// What a charge would meet by this gateway's share, and the capacity of that; none if nothing is known of its key.
    pub(super) fn look(&self, charge: &Charge<'_>) -> Option<(u64, Outlook)> {
        let gateways = self.gateways.count();
        let (now, verdict) = self.on_copy(charge, |tally, quota, cost, now| {
            tally.charge_share(quota, gateways, cost, now)
        })?;
        let (capacity, here) = (charge.limit.quota().divided(gateways).capacity(), true);
        Some((capacity, Outlook { now, verdict, here }))
    }

    /// Charges a copy of what is known of a key. Returns the time by Redis's clock, and the verdict as if nothing was charged.
    fn on_copy(
        &self,
        charge: &Charge<'_>,
        count: impl FnOnce(&mut Tally, &Quota, u64, Micros) -> Verdict,
    ) -> Option<(Micros, Verdict)> {
        let mut tally = self.table.tally(charge)?;
        let now = self.access.caller.shards.now(&charge.key.tag);
        let now = now.unwrap_or_else(crate::now);
        let mut verdict = count(&mut tally, charge.limit.quota(), charge.cost, now);
        if verdict.allowed {
            verdict.remaining += charge.cost;
        }
        Some((now, verdict))
    }

    /// Resets these keys here, after Redis.
    pub(super) fn forget(&self, charges: &[Charge<'_>]) {
        for charge in charges {
            let table = &self.table;
            table.with_known(charge, Due::Now, |entry| entry.tally.forget());
        }
    }

    /// What synced limits cost and what they let through.
    pub(super) fn usage(&self) -> SyncedUse {
        SyncedUse {
            no_place: self.no_place.load(Ordering::Relaxed),
            exchanges: self.exchanges.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            ..self.table.usage()
        }
    }
}
