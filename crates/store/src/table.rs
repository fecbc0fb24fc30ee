//! The table of the memory store: state in this process, bounded, in shards with a lock each.
//!
//! The number of keys is bounded. [`Table::sweep`] drops expired keys. Each limit has a floor: places that no other limit can take. The
//! `occupancy` of a shard divides the other places.
//!
//! A new key that finds no free place replaces an expired key, or a key that has used less than half of its quota. The limit with the most
//! keys loses a key first. A client whose key was replaced may be admitted up to half a quota too much. A key that has used more is not
//! replaced, so a flood of new keys cannot reset a key that is being limited. A refused new key replaces no key. New keys without a place
//! share one budget per limit and shard until a place is free.

mod reading;
mod shard;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::MutexGuard;
use tidegate_core::{Budget, Hold, HoldId, Micros, Quota, State, Verdict, decide};

use crate::charge::{LimitKey, hold_of, next_hold};
use crate::sharded::Sharded;
use crate::{Charge, Decision, Outcome, Outlook, PerCharge, Via};
pub(crate) use shard::KeyState;
use shard::{Room, Shard};

const MAX_SHARDS: usize = 64;
/// The lease of a charge that is held until other limits have decided, in us: longer than the longest `timeout` of Redis.
const UNDECIDED: Micros = 120_000_000;

/// State by key.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Sharded<Shard>,
    next_sweep: AtomicUsize,
}

/// The number of keys in the memory store, and the effects of a full table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// The present number of keys.
    pub keys: usize,
    /// Unexpired keys that new keys replaced, since start.
    pub evicted: u64,
    /// Decisions made on a shared budget because there was no room, since start.
    pub shared: u64,
}

/// The reason why a new key found no place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crowded {
    /// The address that chose the key already has the most keys of unverified values that one address may have.
    Address,
    /// All addresses together already have the most keys of unverified values that the table may have.
    Unverified,
    /// All places beyond the floor of the limit are taken.
    Table,
}

/// A limit whose new keys found no place, so that they shared one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrowdedLimit {
    /// The limit's name.
    pub limit: Box<str>,
    /// The number of decisions on its shared budget, since start.
    pub decisions: u64,
    /// The reason why its keys found no place.
    pub crowded: Crowded,
}

impl Table {
    /// Creates an empty table for at most `max_keys` keys, rounded up to fill its shards evenly.
    pub(crate) fn new(max_keys: usize) -> Self {
        let shards = (max_keys / 1_024).clamp(1, MAX_SHARDS).next_power_of_two();
        let capacity = max_keys.div_ceil(shards);
        Self {
            shards: Sharded::new(shards, || Shard::new(capacity)),
            next_sweep: AtomicUsize::new(0),
        }
    }

    /// Decides at the time of `clock`, by the [`Terms`] that `terms` returns for each charge. The clock is read while the keys are locked,
    /// so that decisions about one key are in the order of their times.
    pub(crate) fn decide_by(
        &self,
        charges: &[Charge<'_>],
        clock: impl FnOnce() -> Micros,
        terms: impl Fn(&Charge<'_>) -> Terms,
    ) -> Decision {
        let mut hold = hold_of(charges);
        let mut quotas = PerCharge::<Quota>::new();
        let mut beside = PerCharge::<Beside>::new();
        let mut places = PerCharge::<Place>::new();
        let mut order = PerCharge::<usize>::new();
        for (index, charge) in charges.iter().enumerate() {
            let terms = terms(charge);
            quotas.push(terms.quota);
            if terms.is_undecided || terms.elsewhere.is_some() {
                beside.push((index, terms.is_undecided, terms.elsewhere));
            }
            let (shard, key) = self.locate(charge);
            let room = Room::Own;
            places.push(Place { shard, key, room });
            if !order.contains(&shard) {
                order.push(shard);
            }
        }
        if hold == HoldId(0) && beside.iter().any(|(_, is_undecided, _)| *is_undecided) {
            hold = next_hold();
        }
        // All locks of a decision are held together. Each decision takes them in the same order, so that two decisions cannot deadlock.
        order.sort_unstable();
        let mut shards = PerCharge::<MutexGuard<'_, Shard>>::new();
        for shard in &order {
            shards.push(self.shards.at(*shard));
        }
        let now = clock();

        let mut budgets = PerCharge::<Budget<'_>>::new();
        let mut missing = PerCharge::<usize>::new();
        for (index, (place, quota)) in places.iter_mut().zip(&quotas).enumerate() {
            place.shard = order.binary_search(&place.shard).unwrap_or_default();
            let held = shards[place.shard].take(&place.key, quota, now);
            let held = held.unwrap_or_else(|| {
                missing.push(index);
                KeyState::fresh(quota)
            });
            budgets.push(held.budget(&charges[index], quota, hold));
        }
        for index in missing {
            let (place, charge, quota) = (&mut places[index], &charges[index], &quotas[index]);
            let (held, room) = shards[place.shard].take_new(place.key, charge, quota, now);
            place.room = room;
            budgets[index] = held.budget(charge, quota, hold);
        }
        for (index, is_undecided, elsewhere) in beside {
            let budget = &mut budgets[index];
            if is_undecided {
                budget.lease.get_or_insert(UNDECIDED);
            }
            restrict(budget, elsewhere, now);
        }
        let mut decided = PerCharge::<Verdict>::from_elem(Verdict::default(), budgets.len());
        let admitted = decide(&mut budgets, now, &mut decided);
        let mut verdicts = PerCharge::<Option<Verdict>>::new();
        for ((place, charge), (budget, verdict)) in places
            .iter()
            .zip(charges)
            .zip(budgets.into_iter().zip(&decided))
        {
            let charged = (admitted && verdict.allowed).then_some(verdict);
            shards[place.shard].put(place.key, charge.origin, place.room, budget, charged);
            verdicts.push(Some(*verdict));
        }
        Decision {
            outcome: if admitted {
                Outcome::Admitted
            } else {
                Outcome::Refused
            },
            via: Via::Store,
            now,
            sources: Decision::sources(verdicts.len(), now, true, hold),
            verdicts,
            call: None,
        }
    }

    /// Ends the hold with this ID, which was taken under this quota, and charges the real cost.
    pub(crate) fn end(
        &self,
        charge: &Charge<'_>,
        quota: &Quota,
        hold: HoldId,
        used: u64,
        now: Micros,
    ) {
        let (shard, key) = self.locate(charge);
        let mut shard = self.shards.at(shard);
        shard.end(&key, charge, quota, (hold, used), now);
    }

    /// Renews the hold with this ID, or takes it again if it is missing. Returns the new lapse. A running request of `concurrency` holds
    /// its whole cost, even beyond the quota, because a reload or a leaving gateway may raise this gateway's share.
    pub(crate) fn renew(
        &self,
        charge: &Charge<'_>,
        quota: &Quota,
        id: HoldId,
        now: Micros,
    ) -> Option<Micros> {
        let (shard, key) = self.locate(charge);
        let units = match charge.limit.counts_running() {
            true => charge.cost,
            false => charge.cost.min(quota.capacity()),
        };
        let lease = charge.limit.lease()?;
        let hold = Hold { id, units, lease };
        self.shards.at(shard).renew(key, charge, quota, hold, now);
        Some(now + lease)
    }

    /// Checks one charge of a request that another limit refuses. Charges no unit, and starts the block if the request exceeds the limit.
    pub(crate) fn check(&self, charge: &Charge<'_>, terms: Terms, now: Micros) -> Verdict {
        let (shard, key) = self.locate(charge);
        let mut shard = self.shards.at(shard);
        let (held, room) = match shard.take(&key, &terms.quota, now) {
            Some(held) => (held, Room::Own),
            None => shard.take_new(key, charge, &terms.quota, now),
        };
        let mut budget = held.budget(charge, &terms.quota, HoldId(0));
        restrict(&mut budget, terms.elsewhere, now);
        let verdict = budget.check_and_block(now);
        shard.put(key, charge.origin, room, budget, None);
        verdict
    }

    /// Returns the verdict that one charge would get under `terms`, regardless of the request's other limits. Charges no unit.
    pub(crate) fn peek(&self, charge: &Charge<'_>, terms: Terms, now: Micros) -> Outlook {
        let (shard, key) = self.locate(charge);
        let held = self.shards.at(shard).held(&key, now);
        let held = held.unwrap_or_else(|| KeyState::fresh(&terms.quota));
        let mut budget = held.budget(charge, &terms.quota, HoldId(0));
        restrict(&mut budget, terms.elsewhere, now);
        Outlook {
            now,
            verdict: budget.check(now),
            here: true,
        }
    }

    /// Returns the present verdict on a charge ([`Shard::look`]).
    pub(crate) fn look(&self, charge: &Charge<'_>, now: Micros) -> Option<(Verdict, bool)> {
        let (shard, key) = self.locate(charge);
        self.shards.at(shard).look(&key, charge, now)
    }

    /// Removes a key, with its used units and its holds.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        let (shard, key) = self.locate(charge);
        self.shards.at(shard).forget(&key);
    }

    /// Returns the key of a charge, and its shard.
    fn locate(&self, charge: &Charge<'_>) -> (usize, LimitKey) {
        let key = charge.limit_key();
        (self.shards.index(&key), key)
    }

    /// Drops the keys that have expired at `now`, in every shard.
    pub(crate) fn sweep_all(&self, now: Micros) {
        for mut shard in self.shards.all() {
            shard.sweep(now);
        }
    }

    /// Drops the expired keys of one shard, and frees memory. Each call sweeps the next shard. Call it at intervals.
    pub(crate) fn sweep(&self) {
        let next = self.next_sweep.fetch_add(1, Ordering::Relaxed) % self.shards.count();
        self.shards.at(next).sweep(crate::now());
    }

    /// Divides the floors among this number of limits.
    pub(crate) fn divide(&self, limits: usize) {
        for mut shard in self.shards.all() {
            shard.divide(limits);
        }
    }

    /// Returns the limits whose new keys found no place, sorted by name.
    pub(crate) fn crowded(&self) -> Vec<CrowdedLimit> {
        let mut limits = BTreeMap::<Box<str>, CrowdedLimit>::new();
        for shard in self.shards.all() {
            for shared in shard.shared() {
                let entry = limits.entry(shared.limit.clone());
                let limit = entry.or_insert_with(|| CrowdedLimit {
                    limit: shared.limit.clone(),
                    decisions: 0,
                    crowded: shared.crowded,
                });
                limit.decisions += shared.decisions;
                limit.crowded = limit.crowded.max(shared.crowded);
            }
        }
        limits.into_values().collect()
    }

    /// Returns the current use of the table.
    pub(crate) fn usage(&self) -> MemoryUse {
        self.shards
            .all()
            .map(|shard| shard.usage())
            .fold(MemoryUse::default(), |sum, shard| MemoryUse {
                keys: sum.keys + shard.keys,
                evicted: sum.evicted + shard.evicted,
                shared: sum.shared + shard.shared,
            })
    }
}

/// The place of a key in a decision.
struct Place {
    // The index of the shard among all shards. After the shards are locked, the index among the locked shards.
    shard: usize,
    key: LimitKey,
    room: Room,
}

/// The index of a charge, whether another limit may still refuse its request, and the use of its key by Redis's last answer.
type Beside = (usize, bool, Option<Box<Elsewhere>>);

/// The terms on which this process decides a charge.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// The quota. A cost above its capacity counts as the capacity.
    pub(crate) quota: Quota,
    /// The used and held units of the key by Redis's last answer. Only the units by which they exceed this process's own units count.
    /// Boxed, since most charges have none.
    pub(crate) elsewhere: Option<Box<Elsewhere>>,
    /// Whether another limit may still refuse the request. If so, the charge is held until all limits have decided.
    pub(crate) is_undecided: bool,
}

/// The use of a key according to Redis's last answer.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    /// The used units, as the state of the key.
    pub(crate) used: Option<State>,
    /// The units that running requests hold, and the time in us for which this number counts.
    pub(crate) held: Option<(u64, Micros)>,
    /// The end of a block; 0 if there is none.
    pub(crate) blocked_until: Micros,
}

impl Terms {
    /// Returns terms with this quota, and without used or held units from Redis.
    pub(crate) fn of(quota: Quota) -> Self {
        Self {
            quota,
            elsewhere: None,
            is_undecided: false,
        }
    }
}

/// Adds the used units, the held units and the block of Redis's last answer to the state of a key. `None` adds nothing.
fn restrict(budget: &mut Budget<'_>, elsewhere: Option<Box<Elsewhere>>, now: Micros) {
    let Some(elsewhere) = elsewhere else {
        return;
    };
    if let Some((all, lease)) = elsewhere.held {
        // This process's own holds are counted already, so only the difference is added.
        budget.holds.count_others(all, lease, now);
    }
    let own = std::mem::replace(&mut budget.state, budget.quota.fresh());
    budget.state = stricter(budget.quota, own, elsewhere.used, now);
    budget.blocked_until = budget.blocked_until.max(elsewhere.blocked_until);
}

/// Charges to this process's state the units by which `used`, the state in Redis's last answer, exceeds it, and returns the result. If this
/// process's state has expired, returns `used`. Copies no state, because the state of a `sliding_window_log` may take megabytes.
fn stricter(quota: &Quota, mut own: State, used: Option<State>, now: Micros) -> State {
    let Some(mut used) = used else {
        return own;
    };
    if quota.expires(&own) <= now {
        return used;
    }
    // Neither state replaces the other, because each may have units that the other lacks.
    let [left, kept] = [&mut used, &mut own].map(|state| quota.check(state, 1, now).remaining);
    let excess = |state: &State| quota.excess(state, now);
    let more = match kept.checked_sub(left) {
        Some(more) if more > 0 => more,
        _ if left == 0 => excess(&used).saturating_sub(excess(&own)),
        _ => 0,
    };
    if more > 0 {
        quota.charge(&mut own, more, now);
    }
    own
}
