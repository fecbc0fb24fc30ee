//! The memory store: state in this process, bounded, in shards with a lock each.
//!
//! If a hold of a running request may have lapsed by the time of a decision, the store renews its holds before the decision.

mod replay;

use std::sync::Arc;

use tidegate_core::{HoldId, Micros, Verdict};
use tidegate_redis::Cursor;

use crate::registry::Registry;
pub use crate::table::{Crowded, CrowdedLimit, MemoryUse};
use crate::table::{Table, Terms};
use crate::{Charge, Counts, Decision, KeyPage, Limit, LocalView, Outlook, PerCharge, Via};

/// The most keys that a gateway's memory store holds: about 150 MB when all are in use, without the entries of `sliding_window_log`.
pub const MAX_KEYS: usize = 1_000_000;

/// Limiter state in this process.
#[derive(Debug)]
pub struct MemoryStore {
    table: Table,
    registry: Registry,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MAX_KEYS)
    }
}

impl MemoryStore {
    /// Creates an empty store for at most `max_keys` keys (rounded up to fill its shards evenly).
    pub fn new(max_keys: usize) -> Self {
        Self {
            table: Table::new(max_keys),
            registry: Registry::default(),
        }
    }

    /// Returns the table of keys.
    pub(crate) const fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the holds of running requests.
    pub(crate) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Decides by the system's clock.
    pub fn decide(&self, charges: &[Charge<'_>]) -> Decision {
        let now = crate::now();
        self.registry.keep_here(&self.table, now);
        // If the process paused here, holds that were just renewed may have lapsed. If so, the decision uses the time before the pause.
        let is_right = |later: &Micros| !self.registry.may_lapse(*later);
        let clock = || Some(crate::now()).filter(is_right).unwrap_or(now);
        self.table
            .decide_by(charges, clock, |charge| Terms::of(*charge.limit.quota()))
    }

    /// Decides at a given time, in us since the epoch.
    pub fn decide_at(&self, charges: &[Charge<'_>], now: Micros) -> Decision {
        self.decide_by(charges, now, |charge| Terms::of(*charge.limit.quota()))
    }

    /// Decides at a given time, by the [`Terms`] that `terms` returns for each charge.
    pub(crate) fn decide_by(
        &self,
        charges: &[Charge<'_>],
        now: Micros,
        terms: impl Fn(&Charge<'_>) -> Terms,
    ) -> Decision {
        self.registry.keep_here(&self.table, now);
        self.table.decide_by(charges, || now, terms)
    }

    /// Decides one charge on these terms at a given time, and returns the ID of its hold.
    pub(crate) fn decide_one(
        &self,
        charge: &Charge<'_>,
        terms: Terms,
        now: Micros,
    ) -> (Verdict, HoldId) {
        let decision = self.decide_by(std::slice::from_ref(charge), now, |_| terms.clone());
        // One charge has one verdict.
        let verdict = decision.verdicts.into_iter().flatten().next();
        let source = decision.sources.first();
        let hold = source.map_or(HoldId(0), |source| source.hold);
        (verdict.unwrap_or_default(), hold)
    }

    /// Checks, at the time `now`, one charge of a request that another limit refuses. Charges no unit, and starts the block if the request
    /// exceeds the limit.
    pub(crate) fn check(&self, charge: &Charge<'_>, terms: Terms, now: Micros) -> Verdict {
        self.registry.keep_here(&self.table, now);
        self.table.check(charge, terms, now)
    }

    /// Returns the outlook of each charge alone, and charges no unit. A key without an entry counts as unused, although its next request
    /// may be charged to a shared budget if the table is full.
    pub fn peek(&self, charges: &[Charge<'_>]) -> Vec<Outlook> {
        charges.iter().map(|it| self.view(it).outlook).collect()
    }

    /// Returns the state of one charge whose limit this process alone counts.
    pub(crate) fn view(&self, charge: &Charge<'_>) -> LocalView {
        let (now, quota) = (crate::now(), *charge.limit.quota());
        self.registry.keep_here(&self.table, now);
        LocalView {
            outlook: self.table.peek(charge, Terms::of(quota), now),
            capacity: quota.capacity(),
            leased: None,
            last: None,
        }
    }

    /// Returns the counts of a charge's key.
    pub(crate) fn counts(&self, charge: &Charge<'_>) -> Counts {
        let now = crate::now();
        self.registry.keep_here(&self.table, now);
        self.table.counts(charge, now)
    }

    /// Returns the keys of these limits in the next shards.
    pub(crate) fn keys(&self, limits: &[Arc<Limit>], from: Cursor) -> KeyPage {
        self.table.keys(limits, from, crate::now())
    }

    /// Returns the refusal of these charges if a limit refuses now. `None` if the refusal would start or extend a block. Charges no unit.
    pub(crate) fn known_refusal(&self, charges: &[Charge<'_>]) -> Option<Decision> {
        let now = crate::now();
        self.registry.keep_here(&self.table, now);
        let mut refusals = PerCharge::<Option<Verdict>>::new();
        for charge in charges {
            let limit = charge.limit;
            let looked = self.table.look(charge, now);
            let refused = looked.filter(|(verdict, _)| !verdict.allowed);
            if let (Some(block), Some((_, is_blocked))) = (limit.block(), refused)
                && (block.extend || !is_blocked)
            {
                return None;
            }
            let refused = refused.filter(|_| limit.is_refusal_final());
            refusals.push(refused.map(|(verdict, _)| verdict));
        }
        let is_refused = refusals.iter().any(Option::is_some);
        is_refused.then(|| Decision {
            via: Via::Store,
            sources: Decision::sources(refusals.len(), now, true, HoldId(0)),
            ..Decision::remembered(now, refusals.into_iter())
        })
    }

    /// Drops the used units of these keys, but not the holds of running requests. Used units of the budget that new keys share are not
    /// dropped.
    pub fn reset(&self, charges: &[Charge<'_>]) {
        self.registry.forget_here(&self.table, crate::now(), || {
            for charge in charges {
                self.table.forget(charge);
            }
        });
    }

    /// Drops the expired keys of one shard, and frees memory. Each call sweeps the next shard. Call it at intervals.
    pub fn sweep(&self) {
        self.registry.keep_here(&self.table, crate::now());
        self.table.sweep();
    }

    /// Sets the number of limits among which the table divides its floors, the places that only one limit can take. Call it when the
    /// configuration changes.
    pub fn divide(&self, limits: usize) {
        self.table.divide(limits);
    }

    /// Returns the limits whose new keys found no room since start, sorted by name.
    pub fn crowded(&self) -> Vec<CrowdedLimit> {
        self.table.crowded()
    }

    /// Returns the number of keys, and the effects of a full table.
    pub fn usage(&self) -> MemoryUse {
        self.table.usage()
    }
}

#[cfg(test)]
mod tests;
