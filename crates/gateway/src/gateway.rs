//! A whole gateway, made from checked settings. It opens its ports before it serves requests. So a start fails at once if a port is in use.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use tidegate_store::{RedisStore, Store};
use tidegate_tower::{BudgetEvent, Hasher, WaitQueues};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::admin::{self, Admin};
use crate::doors::rate_limit::refunds::Refunds;
use crate::doors::receipts::Receipts;
use crate::notify::{self, Notifier};
use crate::request::problem::Problem;
use crate::runtime::background::{heartbeats, load_synced, sweep};
use crate::runtime::build::Runtime;
use crate::runtime::reload::{Parts, Reloader, open};
use crate::runtime::shared_secret::SharedSecret;
use crate::runtime::snapshot::SharedSnapshot;
use crate::runtime::sockets::listener_names;
use crate::runtime::{Inherited, StartError, redis_outage, redis_watch};
use crate::status::LiveStatus;
use tidegate_config::{Secret, Settings, StoreSettings};
use tidegate_net::descriptors;
use tidegate_overrides::LiveOverrides;
use tidegate_server::{Listener, Server, ServerParts, watch_memory};
use tidegate_telemetry::Door;
use tidegate_telemetry::access_log::{AccessLog, AccessLogSettings, Collector, LogFile, Sink};
use tidegate_telemetry::metrics::GatewayMetrics;

/// The longest time that a stopping gateway waits for Redis to acknowledge the ends of its holds.
const LAST_PLACES: Duration = Duration::from_secs(2);
/// The longest time that a stopping gateway waits until the last lines of the access log are written.
const LAST_LINES: Duration = Duration::from_secs(3);
/// The longest time that a stopping gateway waits for the export of the last trace spans.
const LAST_SPANS: Duration = Duration::from_secs(2);
/// The longest time that a stopping gateway waits for the end of a reload that has already begun.
const LAST_RELOAD: Duration = Duration::from_secs(1);

/// The time between two searches for holds of other programs whose time is over.
const LATE_HOLDS: Duration = Duration::from_secs(1);

/// The answer on a connection that the gateway refuses, because too many connections are open or memory is short.
const TOO_MANY_CONNECTIONS: Problem = Problem::new(
    StatusCode::SERVICE_UNAVAILABLE,
    "overloaded",
    "There are too many connections, or too little memory for more.",
)
.retry_after(Duration::from_secs(1));

/// A gateway with open ports and all its parts. It serves no requests yet.
#[derive(Debug)]
pub struct Gateway {
    listeners: Vec<Listener>,
    decisions: Option<Listener>,
    admin: TcpListener,
    status: Arc<LiveStatus>,
    admin_port: Arc<Admin>,
    parts: Arc<Parts>,
    // The lock that every reload takes. It is held until the gateway serves, so that no reload replaces the settings earlier.
    watches: OwnedMutexGuard<JoinSet<()>>,
    shared_secret: Option<(SharedSecret, Arc<RedisStore>)>,
    notifier: (Arc<Notifier>, mpsc::Receiver<BudgetEvent>),
    stopping: watch::Sender<bool>,
    log_collector: Option<Collector>,
}

impl Gateway {
    /// Opens the ports and makes every part that `settings` needs.
    ///
    /// # Errors
    ///
    /// The cases of [`StartError`]. For example, a port is in use, a file cannot be opened, or the URL of the store is not valid.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        Self::start_with(settings, Inherited::default()).await
    }

    /// Starts a gateway with sockets that are already open. Each socket must have an address that `settings` names.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start), or an inherited socket belongs to no address of `settings`.
    pub async fn start_with(settings: Settings, inherited: Inherited) -> Result<Self, StartError> {
        let named = settings.listen.iter().map(|listener| listener.address);
        let (names, decisions) = listener_names(&settings);
        let named = named.chain([settings.admin.address]);
        let named: Vec<_> = named.chain(decisions.map(|name| name.address)).collect();
        inherited.all_among(&named)?;
        let listeners = open(names.into_iter(), &inherited).await?;
        let decisions = open(decisions.into_iter(), &inherited).await?.pop();
        let admin = inherited.bind(settings.admin.address).await?;
        let secret = settings.secret.as_ref();
        let (store, hasher, shared_secret) = match &settings.store {
            StoreSettings::Memory => {
                // The memory store never sends its keys to another process. So it requires no secret, although keys without a secret are
                // easy to guess.
                let hasher = Hasher::new(secret.map_or("", Secret::expose));
                (Store::Memory(Arc::default()), hasher, None)
            }
            StoreSettings::Redis(options) => {
                let store = RedisStore::connect(options.clone()).await;
                let store = Arc::new(store.map_err(StartError::Store)?);
                let mut shared = SharedSecret::new(secret).map_err(|_| StartError::Random)?;
                // Errors are ignored, because tasks of `run` repeat both calls and handle their errors.
                let _ = store.heartbeat().await;
                let _ = shared.settle(&store).await;
                let hasher = shared.hasher();
                (Store::Redis(store.clone()), hasher, Some((shared, store)))
            }
        };
        let overrides_file = settings.overrides_file.as_deref();
        let overrides = LiveOverrides::start(&store, &hasher, overrides_file).await;
        let overrides = overrides.map_err(|error| {
            StartError::Overrides(overrides_file.unwrap_or(Path::new("")).to_owned(), error)
        })?;
        let (access_log, log_collector) = start_access_log(settings.log.access.as_ref())?;
        let wait_queues = WaitQueues::default();
        let metrics = GatewayMetrics::new(wait_queues.clone());
        let receipts = Receipts::new(metrics.held_decisions(Door::Check));
        let refunds = Refunds::new(metrics.held_decisions(Door::RateLimitService));
        let (events, event_queue) = notify::queue(metrics.budget_events());
        let notifier = Notifier::new(&store, events.clone(), metrics.budget_events().clone());
        let notifier = Arc::new(notifier.map_err(|_| StartError::Random)?);
        let runtime = Runtime {
            store,
            hasher,
            metrics: Arc::new(metrics),
            wait_queues,
            access_log,
            request_ids: Arc::default(),
            overload: Arc::default(),
            overrides,
            receipts: Arc::new(receipts.map_err(|_| StartError::Random)?),
            refunds: Arc::new(refunds),
            events,
        };
        // Ports and Redis have taken their file descriptors by now. Client connections share the remaining descriptors.
        if let Some(misfit) = descriptors::shares().misfit(settings.max_connections) {
            tracing::warn!("{misfit}");
        }
        if let Some((_, store)) = &shared_secret {
            let connected = store.connected().is_ok();
            runtime.metrics.redis().connected(connected);
        }
        let fixed = settings.fixed.clone();
        let current = Arc::new(SharedSnapshot::from_pointee(
            runtime.snapshot(Arc::new(settings), None)?,
        ));
        let (stopping, stopped) = watch::channel(false);
        let watches = Arc::<Mutex<JoinSet<()>>>::default();
        let server = Server::new(ServerParts {
            service: current.clone(),
            metrics: Arc::new(runtime.metrics.server()),
            overload: runtime.overload.clone(),
            refusal: TOO_MANY_CONNECTIONS.respond(),
            stop: stopped,
        });
        let parts = Arc::new(Parts {
            runtime,
            inherited,
            fixed,
            server: Arc::new(server),
            current,
            watches: watches.clone(),
        });
        let status = Arc::new(LiveStatus::new(&parts));
        let reloader = Reloader::new(parts.clone());
        let admin_port = Admin::new(status.clone(), reloader, stopping.subscribe());
        let admin_port = Arc::new(admin_port.map_err(|_| StartError::Random)?);
        Ok(Self {
            listeners,
            decisions,
            admin,
            status,
            admin_port,
            parts,
            watches: watches.lock_owned().await,
            shared_secret,
            notifier: (notifier, event_queue),
            stopping,
            log_collector,
        })
    }

    /// Returns the addresses of the listeners, in the order of the configuration. A configured port 0 is replaced by the port that the
    /// system chose.
    ///
    /// # Errors
    ///
    /// The system does not return the address of a socket.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let sockets = self.listeners.iter().map(|listener| &listener.socket);
        sockets.map(TcpListener::local_addr).collect()
    }

    /// Returns the address of the listener for decisions. `None` if the configuration has no such listener.
    ///
    /// # Errors
    ///
    /// The system does not return the address of the socket.
    pub fn decisions_address(&self) -> io::Result<Option<SocketAddr>> {
        let decisions = self.decisions.as_ref();
        let address = decisions.map(|listener| listener.socket.local_addr());
        address.transpose()
    }

    /// Returns the address of the admin port.
    ///
    /// # Errors
    ///
    /// The system does not return the address of the socket.
    pub fn admin_address(&self) -> io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Returns the handle that applies new settings.
    pub fn reloader(&self) -> Reloader {
        Reloader::new(self.parts.clone())
    }

    /// Returns a function that reopens the file of the access log.
    pub fn reopener(&self) -> impl Fn() + Send + Sync + 'static {
        let access_log = self.parts.runtime.access_log.clone();
        move || access_log.reopen()
    }

    /// Serves until `stop` is ready, then completes the requests in flight.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let Parts {
            runtime,
            current,
            server,
            ..
        } = &*self.parts;
        let admin = tokio::spawn(admin::serve(self.admin, self.admin_port));
        let mut tasks = JoinSet::new();
        let status = self.status;
        tasks.spawn(async move { status.keep().await });
        tasks.spawn(sweep(runtime.store.clone()));
        let (overload, snapshot) = (runtime.overload.clone(), current.clone());
        tasks.spawn(async move {
            watch_memory(&overload, || snapshot.load().max_memory).await;
        });
        let (notifier, queue) = self.notifier;
        tasks.spawn(notifier.clone().keep(queue));
        let store = runtime.store.clone();
        tasks.spawn(async move { store.keep_renewed().await });
        let overrides = runtime.overrides.overrides.clone();
        tasks.spawn(async move { overrides.keep().await });
        let reloader = Reloader::new(self.parts.clone());
        tasks.spawn(async move { reloader.keep_numbers().await });
        let metrics = runtime.metrics.clone();
        let settling = tokio::spawn(async move {
            if let Some((secret, store)) = self.shared_secret {
                let watching = redis_watch::watch(&store, &metrics);
                tokio::join!(
                    secret.keep(&store),
                    heartbeats(&store),
                    watching,
                    redis_outage::watch(&store, &metrics),
                    store.keep_synced()
                );
            }
        });
        let (receipts, refunds) = (runtime.receipts.clone(), runtime.refunds.clone());
        tasks.spawn(async move {
            loop {
                sleep(LATE_HOLDS).await;
                receipts.end_late();
                refunds.end_late();
            }
        });
        load_synced(&runtime.store, &current.load().budgets.limits()).await;
        for listener in self.listeners.into_iter().chain(self.decisions) {
            server.listen(listener);
        }
        *self.watches = current.load().watch(&runtime.metrics);
        drop(self.watches);
        let stop = async {
            stop.await;
            tracing::info!("stopping: requests in flight are answered first");
            // `send_replace` stores the value even if there is no receiver at the moment.
            self.stopping.send_replace(true);
        };
        tokio::join!(server.ended(), stop);
        runtime.receipts.end_all();
        runtime.refunds.end_all();
        // Other gateways count the holds of this gateway until Redis has ended them.
        if timeout(LAST_PLACES, runtime.store.let_go()).await.is_err() {
            tracing::warn!(
                "Redis has not answered the ends of some holds; they lapse, and reserved costs are charged"
            );
        }
        notifier.finish().await;
        tasks.abort_all();
        // A reload may still hold the lock after `LAST_RELOAD`, for example while it reads a file. In this case the watches end with the
        // process.
        if let Ok(mut watches) = timeout(LAST_RELOAD, self.parts.watches.lock()).await {
            watches.abort_all();
        }
        settling.abort();
        admin.abort();
        // The task `settling` uses the store, so it must have ended before the store closes.
        let _ = settling.await;
        runtime.store.close().await;
        // All requests have ended, so all their lines and spans are in the queues.
        current.load().stack.traces.finish(LAST_SPANS).await;
        if let Some(collector) = self.log_collector {
            let finished = tokio::task::spawn_blocking(|| collector.finish(LAST_LINES));
            let _ = timeout(LAST_LINES, finished).await;
        }
    }
}

/// Starts the access log, and the thread that collects its lines.
fn start_access_log(
    settings: Option<&AccessLogSettings>,
) -> Result<(AccessLog, Option<Collector>), StartError> {
    let Some(settings) = settings else {
        return Ok((AccessLog::off(), None));
    };
    let sink = match &settings.file {
        Some(path) => {
            let opened = LogFile::open(path);
            let opened = opened.map_err(|error| StartError::AccessLog(path.clone(), error))?;
            Some(Sink::File(opened))
        }
        None => tidegate_telemetry::log::access_sink().map(Sink::Log),
    };
    let Some(sink) = sink else {
        return Ok((AccessLog::off(), None));
    };
    let (log, collector) = AccessLog::start(settings, sink).map_err(StartError::Thread)?;
    Ok((log, Some(collector)))
}
