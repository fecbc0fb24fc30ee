//! A whole gateway, made from a checked plan: bound first, so that a port in use is found, then run.

mod start_error;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{MemoryStore, RedisStore, Store};
use tidegate_tower::{Hasher, Lines, Rule};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access_log::{AccessLog, Writer};
use crate::admin::{self, Access, Admin};
use crate::budgets::Budgets;
use crate::chores::{heartbeats, renew, sweep};
use crate::config::{KeyFile, Plan, RoutePlan, Secret, StorePlan};
use crate::frontend::{Frontend, Route};
use crate::jwks::{self, Jwks};
use crate::key_files;
use crate::metrics::{GatewayMetrics, RouteMetrics};
use crate::proxy::{Forwarding, PoolTimeouts, Retries, Upstream};
use crate::redis_watch;
use crate::request_id::RequestIds;
use crate::routes::Routes;
use crate::server::{self, Listener};
use crate::shared_secret::SharedSecret;
use crate::stack::Enforcement;
use crate::tls;

pub use start_error::StartError;

/// How long it may take to give back what requests held.
const LAST_PLACES: Duration = Duration::from_secs(2);
/// How long the last lines of the access log may take to be written.
const LAST_LINES: Duration = Duration::from_secs(5);

/// A gateway whose ports are open and whose parts are made, but which serves nobody yet.
#[derive(Debug)]
pub struct Gateway {
    listeners: Vec<Listener>,
    admin: TcpListener,
    access: Access,
    frontend: Arc<Frontend>,
    budgets: Budgets,
    store: Store,
    shared_secret: Option<(SharedSecret, Arc<RedisStore>)>,
    key_files: Vec<KeyFile>,
    jwks: Vec<Jwks>,
    max_connections: usize,
    log_writer: Option<Writer>,
}

impl Gateway {
    /// Opens the ports and makes every part that `plan` asks for.
    pub async fn start(plan: Plan) -> Result<Self, StartError> {
        let mut listeners = Vec::new();
        for plan in plan.listen {
            let socket = bind(plan.address).await?;
            listeners.push(Listener {
                socket,
                tls: plan.tls,
            });
        }
        let admin = bind(plan.admin.address).await?;
        let secret = plan.secret.as_ref();
        let (store, hasher, shared_secret) = match plan.store {
            StorePlan::Memory => {
                // Its keys leave this process nowhere.
                let hasher = Hasher::new(secret.map_or("", Secret::expose));
                (
                    Store::Memory(Arc::new(MemoryStore::default())),
                    hasher,
                    None,
                )
            }
            StorePlan::Redis(options) => {
                let store = RedisStore::connect(options).await;
                let store = Arc::new(store.map_err(StartError::Store)?);
                let mut shared = SharedSecret::new(secret).map_err(|_| StartError::Random)?;
                // Errors are met again, by those that keep asking.
                let _ = store.heartbeat().await;
                let _ = shared.settle(&store).await;
                let hasher = shared.hasher();
                (Store::Redis(store.clone()), hasher, Some((shared, store)))
            }
        };
        let jwks = plan.jwks.into_iter().map(Jwks::new);
        let jwks = jwks.collect::<io::Result<_>>();
        let jwks = jwks.map_err(StartError::Authorities)?;
        let (access_log, log_writer) = if plan.log.access {
            let (log, writer) = AccessLog::start().map_err(StartError::Thread)?;
            (log, Some(writer))
        } else {
            (AccessLog::off(), None)
        };
        let enforcement = Enforcement {
            clients: Arc::new(plan.clients),
            hasher,
            store: store.clone(),
            lines: Lines::default(),
        };
        let metrics = Arc::new(GatewayMetrics::new(enforcement.lines.clone()));
        let upstreams = start_upstreams(&plan.routes, &metrics);
        let make = |route| make_route(route, &enforcement, &upstreams, &metrics);
        let unmatched = plan.unmatched;
        let routes = plan.routes.iter().map(|route| route.policy.clone());
        let budgets = Budgets {
            policies: std::iter::once(unmatched.clone()).chain(routes).collect(),
            clients: enforcement.clients.clone(),
            hasher: enforcement.hasher.clone(),
            store: store.clone(),
        };
        let frontend = Frontend {
            routes: Routes::new(&plan.routes, make),
            unmatched_metrics: route_metrics(&metrics, &unmatched.route, &unmatched.rules),
            unmatched: enforcement.unmatched(unmatched, plan.no_route),
            clients: enforcement.clients.clone(),
            proxy_protocol: plan.proxy_protocol,
            timeouts: plan.timeouts,
            metrics,
            access_log,
            request_ids: RequestIds::default(),
        };
        Ok(Self {
            listeners,
            admin,
            access: Access::new(&plan.admin),
            frontend: Arc::new(frontend),
            budgets,
            store,
            shared_secret,
            key_files: plan.key_files,
            jwks,
            max_connections: plan.max_connections,
            log_writer,
        })
    }

    /// The addresses that it listens on, in the order of the configuration; ports that were 0 are known here.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let sockets = self.listeners.iter().map(|listener| &listener.socket);
        sockets.map(TcpListener::local_addr).collect()
    }

    /// The address of the admin port.
    pub fn admin_address(&self) -> io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Serves until `stop` is ready, then lets the requests in flight end.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let (stopping, stopped) = watch::channel(false);
        let admin = Arc::new(Admin {
            frontend: self.frontend.clone(),
            store: self.store.clone(),
            budgets: self.budgets,
            access: self.access,
            stopping: stopped.clone(),
        });
        let admin = tokio::spawn(admin::serve(self.admin, admin));
        let sweeper = tokio::spawn(sweep(self.store.clone()));
        let renewing = tokio::spawn(renew(self.store.clone()));
        let metrics = self.frontend.metrics.clone();
        let key_watch = tokio::spawn(key_files::watch(self.key_files, metrics));
        let metrics = self.frontend.metrics.clone();
        let listeners = self.listeners.iter();
        let secured = listeners.filter_map(|listener| listener.tls.clone());
        let certificate_watch = tokio::spawn(tls::watch(secured.collect(), metrics));
        let mut jwks_watches = JoinSet::new();
        for set in self.jwks {
            let metrics = self.frontend.metrics.jwks(set.name());
            jwks_watches.spawn(jwks::watch(set, metrics));
        }
        let metrics = self.frontend.metrics.clone();
        let settling = tokio::spawn(async move {
            if let Some((secret, store)) = self.shared_secret {
                let watching = redis_watch::watch(&store, &metrics);
                tokio::join!(
                    secret.keep(&store),
                    heartbeats(&store),
                    watching,
                    store.keep_synced()
                );
            }
        });
        let serving = server::run(self.listeners, self.frontend, self.max_connections, stopped);
        let stop = async {
            stop.await;
            tracing::info!("stopping: requests in flight are answered first");
            // Nobody listens only if serving has ended already.
            let _ = stopping.send(true);
        };
        tokio::join!(serving, stop);
        // Other gateways wait for what this one's requests held.
        if tokio::time::timeout(LAST_PLACES, self.store.let_go())
            .await
            .is_err()
        {
            tracing::warn!("not all that requests held could be given back; it lapses by itself");
        }
        renewing.abort();
        sweeper.abort();
        key_watch.abort();
        certificate_watch.abort();
        jwks_watches.abort_all();
        settling.abort();
        admin.abort();
        // Whatever it was doing has ended.
        let _ = settling.await;
        self.store.close().await;
        // All requests have ended and handed their lines over.
        if let Some(writer) = self.log_writer {
            let finished = tokio::task::spawn_blocking(|| writer.finish());
            let _ = tokio::time::timeout(LAST_LINES, finished).await;
        }
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| StartError::Bind(address, error))
}

/// The upstreams that routes lead to, by name, each once.
fn start_upstreams(
    routes: &[RoutePlan],
    metrics: &GatewayMetrics,
) -> HashMap<Arc<str>, Arc<Upstream>> {
    let mut upstreams = HashMap::new();
    for plan in routes.iter().map(|route| &route.upstream) {
        let upstream = upstreams.entry(plan.name.clone());
        upstream.or_insert_with(|| {
            Arc::new(Upstream::start(plan.clone(), metrics.upstream(&plan.name)))
        });
    }
    upstreams
}

fn make_route(
    plan: &RoutePlan,
    enforcement: &Enforcement,
    upstreams: &HashMap<Arc<str>, Arc<Upstream>>,
    metrics: &GatewayMetrics,
) -> Route {
    let timeouts = PoolTimeouts {
        connect: plan.timeouts.connect,
        answer: plan.timeouts.upstream,
        client: plan.timeouts.idle,
    };
    let forwarding = Forwarding {
        upstream: upstreams[&plan.upstream.name].clone(),
        timeouts,
        retries: plan.retries.map(Retries::new),
        edits: plan.edits.clone(),
        clients: enforcement.clients.clone(),
        vouched: enforcement.clients.vouched_headers().cloned().collect(),
        max_body: plan.max_body,
        upgrades: plan.upgrades.clone(),
        tunnel_idle: plan.timeouts.tunnel_idle,
    };
    let metrics = route_metrics(metrics, &plan.policy.route, &plan.policy.rules);
    Route {
        name: plan.policy.route.clone(),
        stack: enforcement.route(plan.policy.clone(), forwarding),
        metrics,
    }
}

fn route_metrics(metrics: &GatewayMetrics, route: &Arc<str>, rules: &[Rule]) -> Arc<RouteMetrics> {
    let limits = rules.iter().map(|rule| &*rule.limit);
    Arc::new(RouteMetrics::new(metrics, route, limits))
}
