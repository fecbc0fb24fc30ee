//! What was found out before: most requests are of clients and paths that came already.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash};

use foldhash::fast::RandomState;

/// The most entries of a cache that grows with what clients may make up.
pub(crate) const BOUND: usize = 1 << 16;

/// Values by keys, of which each is kept in full beside its hash.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    values: HashMap<u64, (K, V), RandomState>,
    hasher: RandomState,
    bound: usize,
}

impl<K, V> Cache<K, V> {
    /// An empty cache for so many entries: then it begins anew.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            values: HashMap::default(),
            hasher: RandomState::default(),
            bound,
        }
    }

    pub(crate) fn hash(&self, key: &impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The value of the key with this hash of which `is` is true.
    pub(crate) fn get(&self, hash: u64, is: impl FnOnce(&K) -> bool) -> Option<&V> {
        let (key, value) = self.values.get(&hash)?;
        is(key).then_some(value)
    }

    pub(crate) fn put(&mut self, hash: u64, key: K, value: V) {
        if self.values.len() >= self.bound {
            self.values.clear();
        }
        self.values.insert(hash, (key, value));
    }
}
