//! The background work for the servers of an upstream: DNS lookups, health checks, and ejections of failing servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout, timeout_at};

use super::discovery::Discovery;
use super::health::{Served, State};
use super::metrics::UpstreamMetrics;
use super::places::Places;
use super::selection::Selector;
use super::server::Server;
use super::settings::{EjectSettings, UpstreamSettings};

/// The servers of an upstream, and their state.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) settings: Arc<UpstreamSettings>,
    pub(crate) selector: Arc<Selector>,
    /// `None` if servers have no bound on connections.
    pub(crate) places: Option<Arc<Places>>,
    pub(crate) metrics: UpstreamMetrics,
    pub(crate) discovery: Arc<Discovery>,
    // The number of requests that all servers together have served.
    served: AtomicU64,
    // Locked while an ejection is decided.
    ejecting: Mutex<()>,
    ejected: Notify,
    stale: Notify,
}

impl Background {
    pub(crate) fn new(settings: Arc<UpstreamSettings>, metrics: UpstreamMetrics) -> Self {
        let selector = Arc::new(Selector::new(settings.balance, settings.slow_start));
        let discovery = Arc::new(Discovery::new(&settings));
        let places = settings.max_connections.map(|_| {
            let shown = metrics.waiting.clone();
            let places = Places::new(selector.clone(), discovery.clone(), &settings, shown);
            Arc::new(places)
        });
        let background = Self {
            selector,
            places,
            discovery,
            metrics,
            served: AtomicU64::new(0),
            ejecting: Mutex::default(),
            ejected: Notify::new(),
            stale: Notify::new(),
            settings,
        };
        background.count();
        background
    }

    /// Returns the servers. If none has an address yet, resolves their names first, for at most `timeout`.
    pub(crate) async fn servers(&self, timeout: Duration) -> Arc<Vec<Arc<Server>>> {
        let servers = self.discovery.current();
        if !servers.is_empty() {
            return servers;
        }
        // The result is not needed here: the background task looks up the names too, and logs the addresses.
        let _ = tokio::time::timeout(timeout, self.discovery.resolve(&self.settings)).await;
        self.discovery.current()
    }

    /// Returns the counts of requests that were served so far. Callers store the counts when they send a request to `server`.
    pub(crate) fn served(&self, server: &Server) -> Served {
        Served {
            here: server.health.served(),
            by_all: self.served.load(Ordering::Relaxed),
        }
    }

    /// Records a request that a server served.
    pub(crate) fn succeeded(&self, server: &Server) {
        let was_failing = server.health.succeeded();
        self.served.fetch_add(1, Ordering::Relaxed);
        if was_failing {
            self.count();
            tracing::info!(upstream = %self.settings.name, server = %server.settings, address = %server.address, "a failing server serves requests again");
        }
    }

    /// Records a request that failed at a server. Ejects the server if it fails far more often than another server. `before` has the counts
    /// of `served` from the time when the request was sent.
    pub(crate) fn failed(&self, server: &Arc<Server>, before: Served) {
        let Some(settings) = &self.settings.eject else {
            return;
        };
        let health = &server.health;
        health.failed(before);
        if !self.eject(settings, server) && health.is_in() && health.starts_failing(settings.after)
        {
            self.count();
            let failures = health.failures();
            tracing::warn!(upstream = %self.settings.name, server = %server.settings, address = %server.address, failures, "a server fails all requests and is not ejected");
        }
    }

    /// Ejects a server that fails too often, if another server fails far less often. Returns whether it was ejected.
    fn eject(&self, settings: &EjectSettings, server: &Arc<Server>) -> bool {
        let health = &server.health;
        if !health.fails(settings, self.served.load(Ordering::Relaxed)) {
            return false;
        }
        let _one_by_one = self.ejecting.lock();
        let servers = self.discovery.current();
        let is_better =
            |other: &Arc<Server>| other.health.is_in() && health.fails_more_than(&other.health);
        let mut others = servers.iter().filter(|other| !Arc::ptr_eq(other, server));
        if !others.any(is_better) {
            return false;
        }
        let failures = health.failures();
        let out = servers.iter().filter(|server| !server.health.is_in());
        let share = servers.len() * settings.at_most as usize / 100;
        let most = share.max(1).min(servers.len().saturating_sub(1));
        if out.count() >= most || !health.is_in() {
            return false;
        }
        let lasts = health.eject(settings, Instant::now());
        self.metrics.ejections.inc();
        self.count();
        tracing::warn!(upstream = %self.settings.name, server = %server.settings, address = %server.address, failures, ?lasts, "a server failed too often and is ejected");
        self.ejected.notify_one();
        true
    }

    /// Requests a DNS lookup, because the addresses behind the servers' names may have changed.
    pub(crate) fn look_again(&self) {
        if self.discovery.have_names() {
            self.stale.notify_one();
        }
    }

    /// Runs all background work until the future is dropped.
    pub(crate) async fn keep(self: Arc<Self>) {
        tokio::join!(
            self.resolve_names(),
            self.end_ejections(),
            self.check_health()
        );
    }

    async fn resolve_names(&self) {
        if !self.discovery.have_names() {
            return;
        }
        loop {
            if self.discovery.resolve(&self.settings).await {
                let servers = self.discovery.current();
                let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
                let upstream = &self.settings.name;
                tracing::info!(%upstream, ?addresses, "addresses of an upstream resolved");
            }
            self.count();
            let _ = timeout(self.settings.resolve_every, self.stale.notified()).await;
        }
    }

    async fn end_ejections(&self) {
        let Some(settings) = &self.settings.eject else {
            return;
        };
        loop {
            let servers = self.discovery.current();
            let ends = servers.iter().map(|server| server.health.ejected_until());
            let next = ends.flatten().min();
            let ejected = self.ejected.notified();
            match next {
                Some(next) => drop(timeout_at(next.into(), ejected).await),
                None => ejected.await,
            }
            let now = Instant::now();
            for server in servers.iter() {
                let until = server.health.ejected_until();
                if until.is_none_or(|until| until > now) {
                    continue;
                }
                server.health.end_ejection(settings, now);
                self.count();
                tracing::info!(upstream = %self.settings.name, server = %server.settings, address = %server.address, "an ejected server gets requests again");
            }
        }
    }

    async fn check_health(&self) {
        let Some(settings) = &self.settings.health else {
            return;
        };
        let mut every = interval(settings.every);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let mut checks = JoinSet::new();
            for server in self.discovery.current().iter() {
                let (server, settings) = (server.clone(), settings.clone());
                checks.spawn(async move {
                    let passed = server.check(&settings).await;
                    (server, passed)
                });
            }
            while let Some(checked) = checks.join_next().await {
                if let Ok((server, Some(passed))) = checked {
                    self.metrics.checks[usize::from(passed.is_ok())].inc();
                    let change = server
                        .health
                        .checked(settings, passed.is_ok(), Instant::now());
                    if change.is_some() {
                        self.log_check(&server, passed);
                    }
                }
            }
        }
    }

    /// Logs that a server passes its checks again, or why it gets no requests.
    fn log_check(&self, server: &Server, passed: Result<(), Box<str>>) {
        let (upstream, address) = (&self.settings.name, server.address);
        let server = &server.settings;
        match passed {
            Ok(()) => {
                tracing::info!(%upstream, %server, %address, "a server passes its health checks again");
            }
            Err(cause) => {
                tracing::warn!(%upstream, %server, %address, %cause, "a server fails its health checks and gets no requests");
            }
        }
        self.count();
    }

    /// Updates the metrics of servers by state. Before that, waiting requests get the free places of servers that recovered.
    fn count(&self) {
        if let Some(places) = &self.places {
            places.serve();
        }
        let servers = self.discovery.current();
        let states = [
            (State::Healthy, &self.metrics.healthy),
            (State::Failing, &self.metrics.failing),
            (State::Ejected, &self.metrics.ejected),
            (State::Unhealthy, &self.metrics.unhealthy),
        ];
        for (state, gauge) in states {
            let count = servers.iter().filter(|it| it.health.state() == state);
            gauge.set(i64::try_from(count.count()).unwrap_or(i64::MAX));
        }
    }
}
