//! The ID of this gateway in Redis.
//!
//! An ID is random, from the operating system. Two processes share an ID only if both were resumed from one snapshot of a virtual machine
//! or of the process. Redis stores slices and counts by gateway ID. So two such gateways would overwrite each other's slices and counts,
//! and count as one gateway. The heartbeats of both reveal the shared ID (`twin`).

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tidegate_core::Micros;

/// This gateway's ID.
#[derive(Debug)]
pub struct Identity(ArcSwap<String>);

impl Default for Identity {
    fn default() -> Self {
        Self::new()
    }
}

impl Identity {
    /// Draws a random ID. A process ID is not enough: a process may have several stores, and processes in containers often have the same
    /// process ID.
    pub fn new() -> Self {
        Self(ArcSwap::from_pointee(drawn(0)))
    }

    /// Returns the current ID.
    pub fn get(&self) -> Arc<String> {
        self.0.load_full()
    }

    /// Draws another ID. Two processes from one snapshot may draw the same random numbers. So the ID also depends on `at`, the time of an
    /// answer on Redis's clock. No other process got an answer at that time.
    pub fn renew(&self, at: Micros) {
        self.0.store(Arc::new(drawn(at)));
    }

    pub(super) fn become_clone_of(&self, other: &Self) {
        self.0.store(other.get());
    }
}

fn drawn(at: Micros) -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(at);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ids_are_the_same() {
        let ids: std::collections::HashSet<_> = (0..100).map(|_| Identity::new().get()).collect();
        assert_eq!(ids.len(), 100);
        // With the same random numbers, the time makes the new ID different.
        let identity = Identity::new();
        let before = identity.get();
        identity.renew(1);
        assert_ne!(identity.get(), before);
    }
}
