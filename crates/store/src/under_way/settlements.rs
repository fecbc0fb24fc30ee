//! Who waits for settlements, by key. A settlement wakes those who wait under its own key, and costs one look at a counter
//! while nobody waits.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Limit, Store, Subject};

const SHARDS: usize = 16;

/// A limit, by the hash of its name, and a subject. Two limits with one hash wake each other in vain, and no more.
type Key = (u64, Subject);

/// Everybody who waits, in shards with a lock each.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    count: AtomicUsize,
    shards: [Mutex<HashMap<Key, Watched>>; SHARDS],
    hasher: RandomState,
}

#[derive(Debug)]
struct Watched {
    notify: Arc<Notify>,
    watchers: usize,
}

/// The settlements under one key, for as long as this is kept.
#[derive(Debug)]
pub struct Settlements {
    store: Store,
    key: Key,
    notify: Arc<Notify>,
}

impl Settlements {
    pub(super) fn watch(store: &Store, limit: &Limit, subject: Subject) -> Self {
        let watchers = store.watchers();
        let key = watchers.key(limit, subject);
        // Counted first: a settlement that finds nobody was made before the next decision.
        watchers.count.fetch_add(1, Ordering::SeqCst);
        let mut shard = watchers.shard(key).lock();
        let watched = shard.entry(key).or_insert_with(|| Watched {
            notify: Arc::default(),
            watchers: 0,
        });
        watched.watchers += 1;
        let notify = watched.notify.clone();
        drop(shard);
        let store = store.clone();
        Self { store, key, notify }
    }

    /// Ready once something is settled or given back in this process, from the time of this call on.
    pub fn next(&self) -> impl Future<Output = ()> + use<> {
        self.notify.clone().notified_owned()
    }
}

impl Drop for Settlements {
    fn drop(&mut self) {
        let watchers = self.store.watchers();
        let mut shard = watchers.shard(self.key).lock();
        if let Some(watched) = shard.get_mut(&self.key) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                shard.remove(&self.key);
            }
        }
        if shard.is_empty() {
            *shard = HashMap::new();
        }
        watchers.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Watchers {
    /// Wakes those who wait under this key.
    pub(super) fn notify(&self, limit: &Limit, subject: Subject) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let key = self.key(limit, subject);
        if let Some(watched) = self.shard(key).lock().get(&key) {
            watched.notify.notify_waiters();
        }
    }

    fn key(&self, limit: &Limit, subject: Subject) -> Key {
        (self.hasher.hash_one(limit.name()), subject)
    }

    fn shard(&self, key: Key) -> &Mutex<HashMap<Key, Watched>> {
        let hash = self.hasher.hash_one(key);
        &self.shards[(hash % SHARDS as u64) as usize]
    }
}
