//! The synced limits, and their overshoot.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Overshoot;
use crate::Limit;

/// All synced limits that requests have used since start, by the hashes of their IDs.
#[derive(Debug, Default)]
pub(super) struct Limits(Mutex<HashMap<u64, Arc<Watched>>>);

/// A limit, and its overshoot since start.
#[derive(Debug)]
pub(super) struct Watched {
    name: String,
    id: String,
    max: AtomicU64,
    total: AtomicU64,
}

impl Limits {
    /// Returns the limit whose ID has this hash.
    pub(super) fn get(&self, hash: u64, limit: &Limit) -> Arc<Watched> {
        let make = || Arc::new(Watched::new(limit));
        self.0.lock().entry(hash).or_insert_with(make).clone()
    }

    /// Returns the overshoot of each limit, sorted by name.
    pub(super) fn overshoots(&self) -> Vec<Overshoot> {
        // A limit whose window was changed has several IDs.
        let mut by_name = BTreeMap::<String, Overshoot>::new();
        for limit in self.0.lock().values() {
            let overshoot = by_name.entry(limit.name.clone()).or_default();
            overshoot.limit.clone_from(&limit.name);
            overshoot.max = overshoot.max.max(limit.max.load(Ordering::Relaxed));
            overshoot.total += limit.total.load(Ordering::Relaxed);
        }
        by_name.into_values().collect()
    }
}

impl Watched {
    /// Makes a limit that was never exceeded.
    pub(super) fn new(limit: &Limit) -> Self {
        Self {
            name: limit.name().to_owned(),
            id: limit.id().to_owned(),
            max: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    /// Returns the limit's ID, which is a part of its keys.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Records the units of a key beyond the limit. `more` of these units were counted since the previous answer.
    pub(super) fn exceeded(&self, beyond: u64, more: u64) {
        if more > 0 {
            self.max.fetch_max(beyond, Ordering::Relaxed);
            self.total.fetch_add(more, Ordering::Relaxed);
        }
    }
}
