//! All slices of a gateway, by key: bounded, in shards with a lock each.

use std::collections::{HashMap, hash_map};
use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use parking_lot::{MappedMutexGuard, MutexGuard};
use tokio::sync::watch;

use super::lender::LentKey;
use super::slice::Slice;
use crate::StoreError;
use crate::charge::LimitKey;
use crate::sharded::Sharded;

/// The most keys for which a gateway has slices: about 100 MB when all are in use.
pub(super) const MAX_SLICES: usize = 100_000;

const SHARDS: usize = 64;

/// The slices.
#[derive(Debug)]
pub(super) struct Table {
    shards: Sharded<HashMap<LimitKey, Entry, RandomState>>,
    capacity: usize,
}

/// A slice, the budget from which it is lent, and the answer to the last call about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) budget: Arc<LentKey>,
    pub(super) slice: Slice,
    pub(super) answer: AnswerWatch,
}

/// The result of the last call: none yet, an answer, or an error.
pub(super) type AnswerWatch = watch::Receiver<Option<Result<(), StoreError>>>;

impl Entry {
    pub(super) fn new(budget: Arc<LentKey>, slice: Slice) -> Self {
        Self {
            budget,
            slice,
            answer: watch::channel(None).1,
        }
    }
}

impl Table {
    /// Creates a table for at most `capacity` keys, rounded up to fill its shards evenly.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shards: Sharded::new(SHARDS, HashMap::default),
            capacity: capacity.div_ceil(SHARDS),
        }
    }

    /// Locks the entry of a key. `begin` makes a new entry, if there is a place for it.
    pub(super) fn entry(
        &self,
        key: &LimitKey,
        begin: impl FnOnce() -> Entry,
    ) -> Option<MappedMutexGuard<'_, Entry>> {
        let shard = self.shards.lock(key);
        MutexGuard::try_map(shard, |shard| {
            let is_full = shard.len() >= self.capacity;
            match shard.entry(*key) {
                hash_map::Entry::Occupied(entry) => Some(entry.into_mut()),
                hash_map::Entry::Vacant(_) if is_full => None,
                hash_map::Entry::Vacant(place) => Some(place.insert(begin())),
            }
        })
        .ok()
    }

    /// Locks the entry of a key that has one.
    pub(super) fn get(&self, key: &LimitKey) -> Option<MappedMutexGuard<'_, Entry>> {
        MutexGuard::try_map(self.shards.lock(key), |shard| shard.get_mut(key)).ok()
    }

    /// Returns the keys whose slices are `wanted`, and drops idle entries.
    pub(super) fn sweep(&self, now: Instant, wanted: impl Fn(&Slice) -> bool) -> Vec<LimitKey> {
        let mut keys = Vec::new();
        for mut shard in self.shards.all() {
            shard.retain(|_, entry| !entry.slice.is_idle(now));
            let due = shard.iter().filter(|(_, entry)| wanted(&entry.slice));
            keys.extend(due.map(|(key, _)| *key));
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
