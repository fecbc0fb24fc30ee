//! Values in shards, each with a lock of its own.

use std::hash::{BuildHasher as _, Hash};

use foldhash::fast::RandomState;
use parking_lot::{Mutex, MutexGuard};

/// Values in shards, found by the hashes of keys.
#[derive(Debug)]
pub(crate) struct Sharded<T> {
    shards: Box<[Mutex<T>]>,
    // Seeded per process, so that a client cannot choose keys that all fall into one shard.
    hasher: RandomState,
}

impl<T> Sharded<T> {
    /// Creates this number of shards, a power of two.
    pub(crate) fn new(shards: usize, make: impl Fn() -> T) -> Self {
        debug_assert!(shards.is_power_of_two());
        Self {
            shards: (0..shards).map(|_| Mutex::new(make())).collect(),
            hasher: RandomState::default(),
        }
    }

    /// Returns the index of a key's shard.
    pub(crate) fn index(&self, key: &impl Hash) -> usize {
        // The high bits of the hash, because the maps in the shards use low bits.
        (self.hasher.hash_one(key) >> 32) as usize & (self.shards.len() - 1)
    }

    /// Locks the shard with this index.
    pub(crate) fn at(&self, index: usize) -> MutexGuard<'_, T> {
        self.shards[index].lock()
    }

    /// Locks the shard of a key.
    pub(crate) fn lock(&self, key: &impl Hash) -> MutexGuard<'_, T> {
        self.at(self.index(key))
    }

    /// Locks all shards, one after the other.
    pub(crate) fn all(&self) -> impl Iterator<Item = MutexGuard<'_, T>> {
        self.shards.iter().map(Mutex::lock)
    }

    /// Returns the number of shards.
    pub(crate) const fn count(&self) -> usize {
        self.shards.len()
    }
}
