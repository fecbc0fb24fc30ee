//! Who waits for settlements, by key. A settlement wakes those who wait under its own key, and costs one look at a counter
//! while nobody waits.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Limit, Subject};

const SHARDS: usize = 16;

/// A limit, by the hash of its name, and a subject. Two limits with one hash wake each other in vain, and no more.
pub(crate) type Key = (u64, Subject);

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

impl Watchers {
    /// Wakes those who wait under this key.
    pub(crate) fn notify(&self, limit: &Limit, subject: Subject) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let key = self.key(limit, subject);
        if let Some(watched) = self.shard(key).lock().get(&key) {
            watched.notify.notify_waiters();
        }
    }

    /// Waits under this key from now on, until [`leave`](Self::leave).
    pub(crate) fn enter(&self, key: Key) -> Arc<Notify> {
        // Counted first: a settlement that finds no watcher was made before the next decision.
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut shard = self.shard(key).lock();
        let watched = shard.entry(key).or_insert_with(|| Watched {
            notify: Arc::default(),
            watchers: 0,
        });
        watched.watchers += 1;
        watched.notify.clone()
    }

    /// One watcher under this key less.
    pub(crate) fn leave(&self, key: Key) {
        let mut shard = self.shard(key).lock();
        if let Some(watched) = shard.get_mut(&key) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                shard.remove(&key);
            }
        }
        if shard.is_empty() {
            *shard = HashMap::new();
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn key(&self, limit: &Limit, subject: Subject) -> Key {
        (self.hasher.hash_one(limit.name()), subject)
    }

    fn shard(&self, key: Key) -> &Mutex<HashMap<Key, Watched>> {
        let hash = self.hasher.hash_one(key);
        &self.shards[(hash % SHARDS as u64) as usize]
    }
}
