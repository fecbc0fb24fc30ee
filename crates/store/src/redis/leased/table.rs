//! All slices of a gateway, by key and plan: bounded, in shards with a lock each.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use parking_lot::{MappedMutexGuard, MutexGuard};
use smallvec::SmallVec;
use tidegate_core::Quota;
use tokio::sync::watch;

use super::lender::Budget;
use super::slice::Slice;
use crate::charge::LimitKey;
use crate::sharded::Sharded;
use crate::{Charge, StoreError};

/// The most keys of which a gateway holds slices: about 100 MB when all are in use.
pub(super) const MAX_SLICES: usize = 100_000;

/// The most plans that have a slice each of one key; Redis decides each request of any other plan.
const MAX_PLANS: usize = 4;

const SHARDS: usize = 64;

/// The slices.
#[derive(Debug)]
pub(super) struct Table {
    shards: Sharded<HashMap<LimitKey, Entries, RandomState>>,
    capacity: usize,
}

/// A key under one plan's quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanKey {
    pub(super) key: LimitKey,
    pub(super) quota: Quota,
}

/// The slices of one key, one per plan that asks: most keys have one.
pub(super) type Entries = SmallVec<[Entry; 1]>;

/// A slice, and what is needed to ask for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) budget: Arc<Budget>,
    pub(super) slice: Slice,
    pub(super) answer: AnswerWatch,
}

/// What came of the last question: nothing yet, an answer, or why there is none.
pub(super) type AnswerWatch = watch::Receiver<Option<Result<(), StoreError>>>;

impl Entry {
    pub(super) fn new(budget: Arc<Budget>, slice: Slice) -> Self {
        Self {
            budget,
            slice,
            answer: watch::channel(None).1,
        }
    }
}

impl Table {
    /// For at most so many keys, rounded up to fill its shards evenly.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shards: Sharded::new(SHARDS, HashMap::default),
            capacity: capacity.div_ceil(SHARDS),
        }
    }

    pub(super) fn key(charge: &Charge<'_>) -> PlanKey {
        PlanKey {
            key: charge.limit_key(),
            quota: *charge.limit.quota(),
        }
    }

    /// The entry of a key under a plan, locked; a new one is made by `begin`, if there is a place for it.
    pub(super) fn entry(
        &self,
        key: &PlanKey,
        begin: impl FnOnce() -> Entry,
    ) -> Option<MappedMutexGuard<'_, Entry>> {
        let shard = self.shards.lock(&key.key);
        MutexGuard::try_map(shard, |shard| {
            let is_full = shard.len() >= self.capacity;
            let entries = match shard.entry(key.key) {
                hash_map::Entry::Occupied(known) => known.into_mut(),
                hash_map::Entry::Vacant(_) if is_full => return None,
                hash_map::Entry::Vacant(place) => place.insert(Entries::new()),
            };
            let place = position(entries, &key.quota);
            if place.is_none() && entries.len() < MAX_PLANS {
                entries.push(begin());
                return entries.last_mut();
            }
            entries.get_mut(place?)
        })
        .ok()
    }

    /// The entry of a key that has one under this plan, locked.
    pub(super) fn known(&self, key: &PlanKey) -> Option<MappedMutexGuard<'_, Entry>> {
        let entries = self.all(&key.key)?;
        MappedMutexGuard::try_map(entries, |entries| {
            let place = position(entries, &key.quota);
            place.and_then(|place| entries.get_mut(place))
        })
        .ok()
    }

    /// The entries of a key that has any, one per plan, locked.
    pub(super) fn all(&self, key: &LimitKey) -> Option<MappedMutexGuard<'_, Entries>> {
        MutexGuard::try_map(self.shards.lock(key), |shard| shard.get_mut(key)).ok()
    }

    /// The keys for which `wanted` says so; entries that are idle leave.
    pub(super) fn sweep(&self, now: Instant, wanted: impl Fn(&Slice) -> bool) -> Vec<PlanKey> {
        let mut keys = Vec::new();
        for mut shard in self.shards.all() {
            shard.retain(|_, entries| {
                entries.retain(|entry| !entry.slice.is_idle(now));
                !entries.is_empty()
            });
            for (key, entries) in shard.iter() {
                let due = entries.iter().filter(|entry| wanted(&entry.slice));
                keys.extend(due.map(|entry| PlanKey {
                    key: *key,
                    quota: *entry.budget.limit.quota(),
                }));
            }
            if shard.capacity() > 4 * shard.len().max(64) {
                let size = 2 * shard.len();
                shard.shrink_to(size);
            }
        }
        keys
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.all().map(|shard| shard.len()).sum()
    }
}

/// Where the entry of this plan is.
pub(super) fn position(entries: &Entries, quota: &Quota) -> Option<usize> {
    let mut entries = entries.iter();
    entries.position(|entry| entry.budget.limit.quota() == quota)
}
