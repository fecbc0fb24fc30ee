//! All slices of a gateway, by key: bounded, in shards with a lock each.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Instant;

use foldhash::fast::RandomState;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::sync::watch;

use super::lender::Budget;
use super::slice::Slice;
use crate::{Charge, StoreError, Subject};

/// The most keys of which a gateway holds slices: about 100 MB when all are in use.
pub(super) const MAX_SLICES: usize = 100_000;

const SHARDS: usize = 64;

/// The slices.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Mutex<HashMap<Key, Entry, RandomState>>]>,
    // Seeded per process: nobody outside can aim keys at one shard.
    hasher: RandomState,
    capacity: usize,
}

/// A limit, as a hash of its name and kind, and whom it is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    limit: u64,
    subject: Subject,
}

/// A slice, and what is needed to ask for it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) budget: Arc<Budget>,
    pub(super) slice: Slice,
    pub(super) told: Told,
}

/// What came of the last question: nothing yet, an answer, or why there is none.
pub(super) type Told = watch::Receiver<Option<Result<(), StoreError>>>;

impl Entry {
    pub(super) fn new(budget: Arc<Budget>, slice: Slice) -> Self {
        Self {
            budget,
            slice,
            told: watch::channel(None).1,
        }
    }
}

impl Table {
    /// For at most so many keys, rounded up to fill its shards evenly.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
            capacity: capacity.div_ceil(SHARDS),
        }
    }

    pub(super) fn key(&self, charge: &Charge<'_>) -> Key {
        Key {
            limit: self.hasher.hash_one(charge.limit.id()),
            subject: charge.subject,
        }
    }

    /// The entry of a key, locked; a new one is made by `begin`, if there is a place for it.
    pub(super) fn entry(
        &self,
        key: Key,
        begin: impl FnOnce() -> Entry,
    ) -> Option<MappedMutexGuard<'_, Entry>> {
        let shard = self.shard(&key).lock();
        MutexGuard::try_map(shard, |shard| {
            let is_full = shard.len() >= self.capacity;
            match shard.entry(key) {
                Place::Occupied(known) => Some(known.into_mut()),
                Place::Vacant(_) if is_full => None,
                Place::Vacant(place) => Some(place.insert(begin())),
            }
        })
        .ok()
    }

    /// The entry of a key that has one, locked.
    pub(super) fn known(&self, key: &Key) -> Option<MappedMutexGuard<'_, Entry>> {
        MutexGuard::try_map(self.shard(key).lock(), |shard| shard.get_mut(key)).ok()
    }

    /// The keys for which `wanted` says so; entries that are idle leave.
    pub(super) fn sweep(&self, now: Instant, wanted: impl Fn(&Slice) -> bool) -> Vec<Key> {
        let mut keys = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
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
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, key: &Key) -> &Mutex<HashMap<Key, Entry, RandomState>> {
        // The map uses the low bits of its own hash; the shard is chosen by the high ones of this seed.
        let hash = self.hasher.hash_one(key);
        &self.shards[(hash >> 32) as usize & (SHARDS - 1)]
    }
}
