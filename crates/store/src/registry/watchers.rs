//! Tasks that wait for settlements, by key. A settlement wakes only the tasks under its own key. While no task waits, a settlement only
//! reads a counter.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::charge::LimitKey;
use crate::sharded::Sharded;

const SHARDS: usize = 16;

/// All waiting tasks, in shards with a lock each.
#[derive(Debug)]
pub(crate) struct Watchers {
    count: AtomicUsize,
    shards: Sharded<HashMap<LimitKey, Watched>>,
}

impl Default for Watchers {
    fn default() -> Self {
        Self {
            count: AtomicUsize::new(0),
            shards: Sharded::new(SHARDS, HashMap::new),
        }
    }
}

#[derive(Debug)]
struct Watched {
    notify: Arc<Notify>,
    watchers: usize,
}

impl Watchers {
    /// Wakes the tasks that wait under this key.
    pub(crate) fn notify(&self, key: LimitKey) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(watched) = self.shards.lock(&key).get(&key) {
            watched.notify.notify_waiters();
        }
    }

    /// Adds a watcher under this key, until [`leave`](Self::leave).
    pub(crate) fn enter(&self, key: LimitKey) -> Arc<Notify> {
        // The counter rises before the entry is made. A settlement that still reads 0 takes effect before the task's next decision, so it
        // need not wake the task.
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut shard = self.shards.lock(&key);
        let watched = shard.entry(key).or_insert_with(|| Watched {
            notify: Arc::default(),
            watchers: 0,
        });
        watched.watchers += 1;
        watched.notify.clone()
    }

    /// Removes one watcher under this key.
    pub(crate) fn leave(&self, key: LimitKey) {
        let mut shard = self.shards.lock(&key);
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
}
