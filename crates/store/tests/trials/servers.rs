//! The redis-servers of all trials: those that many trials share, apart by their keys, and those that belong to one trial at
//! a time, since something goes wrong with all of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_testkit::RedisServer;
use tokio::sync::{Mutex, OnceCell};

/// All servers.
#[derive(Default)]
pub(crate) struct Servers {
    shared: OnceCell<Arc<RedisServer>>,
    idle: Mutex<Vec<Arc<RedisServer>>>,
    returned: std::sync::Mutex<Vec<Arc<RedisServer>>>,
    trials: AtomicU64,
}

/// A server, for one trial.
pub(crate) struct Taken {
    pub(crate) redis: Arc<RedisServer>,
    is_own: bool,
}

/// What is written is in a file before it is answered, so that a server that is killed has lost nothing.
const WITH_DATA: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

impl Servers {
    pub(crate) async fn take(&self, is_own: bool) -> Taken {
        if !is_own {
            let redis = self
                .shared
                .get_or_init(async || Arc::new(RedisServer::start().await));
            let redis = redis.await.clone();
            return Taken { redis, is_own };
        }
        let mut idle = self.idle.lock().await;
        idle.append(&mut self.returned.lock().unwrap());
        let redis = match idle.pop() {
            Some(redis) => redis,
            None => Arc::new(RedisServer::start_with(&WITH_DATA).await),
        };
        Taken { redis, is_own }
    }

    pub(crate) fn give_back(&self, taken: Taken) {
        if taken.is_own {
            self.returned.lock().unwrap().push(taken.redis);
        }
    }

    /// What all keys of a trial start with.
    pub(crate) fn key_prefix(&self) -> String {
        format!("t{}", self.trials.fetch_add(1, Ordering::Relaxed))
    }
}
