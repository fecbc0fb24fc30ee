//! A gateway as far as a trial needs one: its overrides behind a proxy of its own. It may pause, end or be killed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_overrides::{Change, Listener, Override, Overrides, Subject, Timing};
use tidegate_redis::{Scripts, Shards};
use tidegate_testkit::{RedisProxy, RedisSentinels, RedisServer};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::history::Entry;

/// How long decisions wait for Redis.
const TIMEOUT: Duration = Duration::from_millis(100);

/// The times of overrides, shorter than in a gateway that is not tried.
const TIMING: Timing = Timing {
    poll: Duration::from_millis(40),
    patience: Duration::from_millis(150),
    silence: Duration::from_millis(250),
    together: Duration::from_millis(10),
    remembered: Duration::from_secs(30 * 24 * 60 * 60),
};

/// The same, for entries that are dropped while a gateway is away.
const FORGETFUL: Timing = Timing {
    remembered: Duration::from_millis(600),
    ..TIMING
};

/// The overrides that requests meet, by subject.
#[derive(Clone, Default)]
struct Enforced(Arc<Mutex<HashMap<Subject, Entry>>>);

impl Listener for Enforced {
    fn changed(&self, _: &[Change], _: bool, in_force: &mut dyn Iterator<Item = Override>) {
        let in_force = in_force.map(|it| (it.subject.clone(), entry(&it)));
        *self.0.lock().unwrap() = in_force.collect();
    }
}

/// Returns an override as the history has it.
pub(crate) fn entry(it: &Override) -> Entry {
    Entry {
        change: it.setting.reason.parse().unwrap(),
        version: it.version,
        ends: it.ends,
    }
}

/// A gateway.
pub(crate) struct Gateway {
    pub(crate) number: usize,
    pub(crate) overrides: Arc<Overrides>,
    pub(crate) proxy: Option<RedisProxy>,
    pub(crate) is_paused: watch::Sender<bool>,
    pub(crate) is_killed: watch::Sender<bool>,
    enforced: Enforced,
    keeper: AbortHandle,
}

/// The servers and the keys of a trial.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) server: Option<Arc<RedisServer>>,
    pub(crate) sentinels: Option<Arc<RedisSentinels>>,
    pub(crate) key_prefix: String,
    /// Whether entries that are over are dropped soon.
    pub(crate) is_forgetful: bool,
}

impl Fleet {
    /// Starts a gateway.
    pub(crate) async fn start(&self, number: usize) -> Gateway {
        let server = self.server.as_ref();
        let proxy = server.map(|server| RedisProxy::start(server.addr()));
        let url = match (&proxy, &self.sentinels) {
            (Some(proxy), _) => format!("redis://{}", proxy.addr()),
            (None, sentinels) => sentinels.as_ref().unwrap().url(0),
        };
        let scripts = Arc::new(Scripts::new(0, |_| String::new()));
        let shards = Shards::start(&url, None, TIMEOUT, scripts).unwrap();
        shards.tried().await;
        let enforced = Enforced::default();
        let listener = Box::new(enforced.clone());
        let timing = match self.is_forgetful {
            true => FORGETFUL,
            false => TIMING,
        };
        let shards = Arc::new(shards);
        let overrides = Overrides::in_redis(shards, &self.key_prefix, timing, listener);
        // The keeper meets an error again.
        let _ = overrides.sync().await;
        let is_paused = watch::Sender::new(false);
        let keeping = keep(overrides.clone(), is_paused.subscribe());
        Gateway {
            number,
            overrides,
            proxy,
            is_paused,
            is_killed: watch::Sender::new(false),
            enforced,
            keeper: tokio::spawn(keeping).abort_handle(),
        }
    }
}

/// Keeps overrides up to date while the gateway runs.
async fn keep(overrides: Arc<Overrides>, mut is_paused: watch::Receiver<bool>) {
    let mut keeping = Box::pin(overrides.keep());
    let mut waking = is_paused.clone();
    while waking.wait_for(|is_paused| !is_paused).await.is_ok() {
        tokio::select! {
            biased;
            _ = is_paused.wait_for(|is_paused| *is_paused) => {}
            () = &mut keeping => return,
        }
    }
}

impl Gateway {
    /// Returns the override that requests meet.
    pub(crate) fn enforced(&self, subject: &Subject) -> Option<Entry> {
        self.enforced.0.lock().unwrap().get(subject).copied()
    }

    pub(crate) fn runs(&self) -> bool {
        !*self.is_paused.borrow() && !*self.is_killed.borrow()
    }

    /// Waits until it runs, or has been killed.
    pub(crate) async fn until_it_runs(&self) {
        let mut is_paused = self.is_paused.subscribe();
        let mut is_killed = self.is_killed.subscribe();
        tokio::select! {
            _ = is_paused.wait_for(|is_paused| !is_paused) => {}
            _ = is_killed.wait_for(|is_killed| *is_killed) => {}
        }
    }

    /// Ends at once: nothing that it sends from now on arrives.
    pub(crate) async fn kill(&self) {
        self.is_killed.send_replace(true);
        self.keeper.abort();
        if let Some(proxy) = &self.proxy {
            proxy.refuse().await;
            proxy.reset();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}
