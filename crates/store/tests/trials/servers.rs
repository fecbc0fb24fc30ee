//! The redis-servers of all trials: those that many trials share, apart by their keys, and those that belong to one trial at
//! a time, since something goes wrong with all of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_testkit::{RedisCluster, RedisServer};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};
use tokio::task::spawn_blocking;

/// All servers.
#[derive(Default)]
pub(crate) struct Servers {
    shared: OnceCell<Arc<RedisServer>>,
    idle: Mutex<Vec<Arc<RedisServer>>>,
    returned: std::sync::Mutex<Vec<Arc<RedisServer>>>,
    /// One trial at a time has it.
    cluster: Arc<Mutex<Option<Arc<RedisCluster>>>>,
    trials: AtomicU64,
}

/// A server, for one trial.
pub(crate) enum Taken {
    /// That many have.
    Shared(Arc<RedisServer>),
    /// That it has alone.
    Own(Arc<RedisServer>),
    /// A cluster, while the guard is kept.
    Cluster(
        Arc<RedisCluster>,
        #[expect(dead_code, reason = "others wait for it")]
        OwnedMutexGuard<Option<Arc<RedisCluster>>>,
    ),
}

impl Taken {
    /// The server, if there is only one.
    pub(crate) const fn one(&self) -> Option<&Arc<RedisServer>> {
        match self {
            Self::Shared(redis) | Self::Own(redis) => Some(redis),
            Self::Cluster(..) => None,
        }
    }

    pub(crate) const fn cluster(&self) -> Option<&Arc<RedisCluster>> {
        match self {
            Self::Cluster(cluster, _) => Some(cluster),
            _ => None,
        }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Shared(redis) | Self::Own(redis) => vec![redis.addr()],
            Self::Cluster(cluster, _) => (0..cluster.len())
                .map(|node| cluster.node(node).addr())
                .collect(),
        }
    }
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
            return Taken::Shared(redis);
        }
        let mut idle = self.idle.lock().await;
        idle.append(&mut self.returned.lock().unwrap());
        let redis = match idle.pop() {
            Some(redis) => redis,
            None => Arc::new(RedisServer::start_with(&WITH_DATA).await),
        };
        Taken::Own(redis)
    }

    /// The cluster, when all others that want it are done.
    pub(crate) async fn take_cluster(&self) -> Taken {
        let mut known = self.cluster.clone().lock_owned().await;
        let cluster = match &*known {
            Some(cluster) => cluster.clone(),
            None => {
                // What waits for a cluster stays on its thread.
                let runtime = Handle::current();
                let started = spawn_blocking(move || runtime.block_on(RedisCluster::start()));
                let cluster = Arc::new(started.await.unwrap());
                *known = Some(cluster.clone());
                cluster
            }
        };
        Taken::Cluster(cluster, known)
    }

    pub(crate) fn give_back(&self, taken: Taken) {
        if let Taken::Own(redis) = taken {
            self.returned.lock().unwrap().push(redis);
        }
    }

    /// What all keys of a trial start with.
    pub(crate) fn key_prefix(&self) -> String {
        format!("t{}", self.trials.fetch_add(1, Ordering::Relaxed))
    }
}
