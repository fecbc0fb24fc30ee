//! The parts of a gateway that a trial needs: a store with its own proxy before Redis. A gateway renews its holds, sends heartbeats, and
//! may end or be killed at any time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};

use tidegate_core::Micros;
use tidegate_store::redis::RedisOptions;
use tidegate_store::{MemoryStore, RedisStore, Store};
use tidegate_testkit::{RedisCluster, RedisProxy, RedisSentinels, RedisServer};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::history::{Count, End};
use crate::machine::{Log, now};

/// The time between two renewals of holds. It has the same ratio to the leases of trials as the default has to the default lease.
const RENEW_EVERY: Duration = Duration::from_millis(30);

/// The longest wait of a decision for Redis.
pub(crate) const TIMEOUT: Duration = Duration::from_millis(100);

/// The time after which a gateway that ends stops sending its counts and slices, with a tolerance.
const LAST_WORDS: Duration = Duration::from_millis(950);

/// Longer than any fault lasts.
const LONG: Micros = 2_000_000;

/// The time between two synced exchanges.
pub(crate) const SYNC_EVERY: Duration = Duration::from_millis(20);

/// The state of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    Ends,
    Killed,
}

/// One gateway.
pub(crate) struct Gateway {
    pub(crate) number: usize,
    pub(crate) store: Store,
    pub(crate) proxy: Option<RedisProxy>,
    pub(crate) life: watch::Sender<Life>,
    paused: Arc<AtomicBool>,
    chores: Vec<AbortHandle>,
    log: Arc<Log>,
    // For each key, the time of the shortest call that Redis answered. The estimate of Redis's clock may be ahead by this time.
    shortest: Mutex<HashMap<u64, Micros>>,
}

/// The settings and servers that all gateways of a trial share.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) server: Option<Arc<RedisServer>>,
    pub(crate) cluster: Option<Arc<RedisCluster>>,
    pub(crate) sentinels: Option<Arc<RedisSentinels>>,
    pub(crate) key_prefix: String,
    pub(crate) gateways: Option<u64>,
    pub(crate) heartbeat: Option<u64>,
    pub(crate) remembers: bool,
    pub(crate) log: Arc<Log>,
}

impl Fleet {
    /// Starts one more gateway.
    pub(crate) async fn start(&self, number: usize) -> Gateway {
        let proxy = self
            .server
            .as_ref()
            .map(|server| RedisProxy::start(server.addr()));
        let url = match &proxy {
            Some(proxy) => Some(format!("redis://{}", proxy.addr())),
            None => self.url(),
        };
        let store = match url {
            None => Store::Memory(Arc::new(MemoryStore::default())),
            Some(url) => Store::Redis(Arc::new(self.connect(url, self.remembers).await)),
        };
        let paused = Arc::new(AtomicBool::new(false));
        let mut gateway = Gateway {
            number,
            store,
            proxy,
            life: watch::Sender::new(Life::Runs),
            paused,
            chores: Vec::new(),
            log: self.log.clone(),
            shortest: Mutex::default(),
        };
        gateway.start_chores(self);
        gateway
    }

    /// The URL of Redis, without a proxy.
    pub(crate) fn url(&self) -> Option<String> {
        let cluster = self.cluster.as_ref().map(|cluster| cluster.url());
        let sentinels = self.sentinels.as_ref().map(|all| all.url(0));
        let server = self.server.as_ref().map(|server| server.url());
        cluster.or(sentinels).or(server)
    }

    pub(crate) async fn connect(&self, url: String, remember_refusals: bool) -> RedisStore {
        let options = RedisOptions {
            url,
            tls: None,
            timeout: TIMEOUT,
            key_prefix: self.key_prefix.clone(),
            gateways: self.gateways,
            sync_every: Duration::from_secs(10),
            remember_refusals,
        };
        RedisStore::connect(options).await.unwrap()
    }
}

impl Gateway {
    /// The time until which Redis may decide a request for this key. A call has a deadline by Redis's clock, which the gateway only
    /// estimates.
    pub(crate) fn given_up(&self, key: u64, begin: Micros, within: Option<Duration>) -> Micros {
        let wait = within.map_or(TIMEOUT, |within| within.min(TIMEOUT));
        let shortest = self.shortest.lock().unwrap();
        let ahead = shortest.get(&key).copied().unwrap_or(LONG);
        begin + wait.as_micros() as Micros + ahead
    }

    /// Notes the time after which Redis has answered a request for this key.
    pub(crate) fn answered(&self, key: u64, took: Micros) {
        let mut shortest = self.shortest.lock().unwrap();
        let known = shortest.entry(key).or_insert(took);
        *known = took.min(*known);
    }

    fn start_chores(&mut self, fleet: &Fleet) {
        let (store, paused) = (self.store.clone(), self.paused.clone());
        let renewing = tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEW_EVERY).await;
                if !paused.load(Ordering::Relaxed) {
                    store.renew().await;
                }
            }
        });
        self.chores.push(renewing.abort_handle());
        let store = self.store.clone();
        let keeping = tokio::spawn(async move {
            if let Store::Redis(store) = &store {
                store.keep_synced().await;
            }
        });
        self.chores.push(keeping.abort_handle());
        if let (Store::Redis(store), Some(every)) = (&self.store, fleet.heartbeat) {
            let (store, log, gateway) = (store.clone(), fleet.log.clone(), self.number);
            let calling = tokio::spawn(async move {
                loop {
                    if let Ok(count) = store.heartbeat().await {
                        let at = now();
                        log.counts
                            .lock()
                            .unwrap()
                            .push(Count { gateway, at, count });
                    }
                    tokio::time::sleep(Duration::from_millis(every)).await;
                }
            });
            self.chores.push(calling.abort_handle());
        }
    }

    /// Stops the gateway and all its messages, until it is called with `false`.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
        if let Some(proxy) = &self.proxy {
            proxy.hold(paused);
        }
    }

    /// Ends the gateway without a shutdown. Later messages do not arrive.
    pub(crate) async fn kill(&self, log: &Log) {
        if let Some(proxy) = &self.proxy {
            proxy.refuse().await;
            proxy.reset();
        }
        self.ended(log, false);
        self.life.send_replace(Life::Killed);
    }

    /// Shuts the gateway down in order. Its requests end, and it sends its counts, and returns its slices.
    pub(crate) async fn end(&self, log: &Log) {
        self.life.send_replace(Life::Ends);
        let settling = async {
            self.life.closed().await;
            self.store.let_go().await;
            let begun = Instant::now();
            self.store.close().await;
            begun.elapsed() < LAST_WORDS
        };
        let in_time = tokio::time::timeout(Duration::from_secs(2), settling).await;
        // Messages that are not sent by now are lost.
        self.ended(log, in_time.unwrap_or(false));
    }

    fn ended(&self, log: &Log, in_order: bool) {
        let end = End {
            gateway: self.number,
            at: now(),
            in_order,
        };
        log.ends.lock().unwrap().push(end);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for at in self.proxy.iter().flat_map(RedisProxy::struck) {
            let since = at.duration_since(UNIX_EPOCH).unwrap();
            self.log.struck(self.number, since.as_micros() as Micros);
        }
        for chore in &self.chores {
            chore.abort();
        }
    }
}

/// The longest time until a gateway receives the counts of others: two intervals, and one exchange that takes its whole timeout.
pub(crate) const UNSEEN: Micros = 2 * 20_000 + 100_000;
