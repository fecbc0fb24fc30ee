//! The redis-servers of all trials. Many trials share one server, with different keys. All other servers belong to one trial at a time,
//! because a fault strikes the whole server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{RedisCluster, RedisSentinels, RedisServer};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OnceCell, OwnedMutexGuard};
use tokio::task::spawn_blocking;

/// The servers of all trials.
#[derive(Debug, Default)]
pub struct Servers {
    shared: OnceCell<Arc<RedisServer>>,
    idle: Mutex<Vec<Arc<RedisServer>>>,
    returned: std::sync::Mutex<Vec<Arc<RedisServer>>>,
    // Servers with a clock of their own.
    idle_with_clock: std::sync::Mutex<Vec<Arc<RedisServer>>>,
    /// The cluster, which one trial at a time may use.
    cluster: Arc<Mutex<Option<Arc<RedisCluster>>>>,
    /// The sentinels with their servers, which one trial at a time may use.
    sentinels: Arc<Mutex<Option<Arc<RedisSentinels>>>>,
    trials: AtomicU64,
}

/// The server or servers of one trial.
#[derive(Debug)]
pub enum Taken {
    /// A server that many trials share.
    Shared(Arc<RedisServer>),
    /// A server of this trial alone.
    Own(Arc<RedisServer>),
    /// A server of this trial alone, with a clock of its own.
    WithClock(Arc<RedisServer>),
    /// A cluster. Other trials that need a cluster wait until this guard is dropped.
    Cluster(
        Arc<RedisCluster>,
        OwnedMutexGuard<Option<Arc<RedisCluster>>>,
    ),
    /// A primary with its replicas and sentinels. Other trials that need sentinels wait until this guard is dropped.
    Sentinels(
        Arc<RedisSentinels>,
        OwnedMutexGuard<Option<Arc<RedisSentinels>>>,
    ),
}

impl Taken {
    /// Returns the server, if there is only one.
    pub const fn one(&self) -> Option<&Arc<RedisServer>> {
        match self {
            Self::Shared(redis) | Self::Own(redis) | Self::WithClock(redis) => Some(redis),
            Self::Cluster(..) | Self::Sentinels(..) => None,
        }
    }

    /// Returns the cluster, if the trial has one.
    pub const fn cluster(&self) -> Option<&Arc<RedisCluster>> {
        match self {
            Self::Cluster(cluster, _) => Some(cluster),
            _ => None,
        }
    }

    /// Returns the servers with their sentinels, if the trial has sentinels.
    pub const fn sentinels(&self) -> Option<&Arc<RedisSentinels>> {
        match self {
            Self::Sentinels(sentinels, _) => Some(sentinels),
            _ => None,
        }
    }

    /// Returns the addresses of all redis-servers of the trial.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Shared(redis) | Self::Own(redis) | Self::WithClock(redis) => vec![redis.addr()],
            Self::Sentinels(all, _) => (0..3).map(|nth| all.server(nth).addr()).collect(),
            Self::Cluster(cluster, _) => (0..cluster.len())
                .map(|node| cluster.node(node).addr())
                .collect(),
        }
    }
}

/// The longest wait until the sentinels are in order. After this time, new sentinels replace them.
const IN_ORDER: Duration = Duration::from_secs(15);

/// Options of a server that puts writes into a file before it answers them, so that it loses no data when it is killed.
const WITH_DATA: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "no"];

impl Servers {
    /// Takes a server that many trials share, or a server for this trial alone.
    pub async fn take(&self, is_own: bool) -> Taken {
        if !is_own {
            let shared = self
                .shared
                .get_or_init(async || Arc::new(RedisServer::start().await));
            return Taken::Shared(shared.await.clone());
        }
        let mut idle = self.idle.lock().await;
        idle.append(&mut self.returned.lock().unwrap());
        let redis = match idle.pop() {
            Some(redis) => redis,
            None => Arc::new(RedisServer::start_with(&WITH_DATA).await),
        };
        Taken::Own(redis)
    }

    /// Takes a server with a clock of its own, which shows the system's time.
    pub async fn take_with_clock(&self) -> Taken {
        let idle = self.idle_with_clock.lock().unwrap().pop();
        let redis = match idle {
            Some(redis) => redis,
            None => Arc::new(RedisServer::start_with_clock(&WITH_DATA).await),
        };
        redis.step_clock(0);
        Taken::WithClock(redis)
    }

    /// Takes the primary with its sentinels, when all other trials are done with them.
    pub async fn take_sentinels(&self) -> Taken {
        let mut guard = self.sentinels.clone().lock_owned().await;
        let before = guard.take();
        // The wait for sentinels must stay on one thread.
        let runtime = Handle::current();
        let ready = spawn_blocking(move || runtime.block_on(sentinels(before)));
        let sentinels = ready.await.unwrap();
        *guard = Some(sentinels.clone());
        Taken::Sentinels(sentinels, guard)
    }

    /// Takes the cluster, when all other trials are done with it.
    pub async fn take_cluster(&self) -> Taken {
        let mut guard = self.cluster.clone().lock_owned().await;
        let cluster = match &*guard {
            Some(cluster) => cluster.clone(),
            None => {
                // The wait for a cluster must stay on one thread.
                let runtime = Handle::current();
                let started = spawn_blocking(move || runtime.block_on(RedisCluster::start()));
                let cluster = Arc::new(started.await.unwrap());
                *guard = Some(cluster.clone());
                cluster
            }
        };
        Taken::Cluster(cluster, guard)
    }

    /// Returns a server to the pool, for the next trial.
    pub fn give_back(&self, taken: Taken) {
        match taken {
            Taken::Own(redis) => self.returned.lock().unwrap().push(redis),
            Taken::WithClock(redis) => self.idle_with_clock.lock().unwrap().push(redis),
            _ => {}
        }
    }

    /// Returns the prefix of all keys of a trial.
    pub fn key_prefix(&self) -> String {
        format!("t{}", self.trials.fetch_add(1, Ordering::Relaxed))
    }
}

/// Returns sentinels that are in order: the sentinels of the last trial, or new ones if the old ones take too long.
async fn sentinels(before: Option<Arc<RedisSentinels>>) -> Arc<RedisSentinels> {
    if let Some(before) = before {
        let deadline = Instant::now() + IN_ORDER;
        while Instant::now() < deadline {
            if before.know_all().await {
                return before;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let sentinels = RedisSentinels::start().await;
    // On a busy machine, a running primary may be silent for more than a second, so it counts as down only after three seconds.
    sentinels.down_after(3_000).await;
    Arc::new(sentinels)
}
