//! The document of `/status.json` and the stream of the status page. Counters are sampled once a second, and the document is written at
//! most once per sample.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tidegate_overrides::LiveOverrides;
use tidegate_server::Server;
use tidegate_status::document::Status;
use tidegate_store::Store;
use tidegate_telemetry::metrics::GatewayMetrics;
use tidegate_telemetry::status::{RouteView, StatusBoard, View};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::runtime::reload::Parts;
use crate::runtime::snapshot::{SharedSnapshot, Snapshot};

/// The interval between two samples of the counters.
const SAMPLE: Duration = Duration::from_secs(1);
/// The number of samples between two counts of the clients that are near a limit. The first count follows the first sample, so that the
/// gauges have values from the start.
const TURN: u64 = 10;
/// The longest wait for the store's answer about the used shares of budgets.
const PATIENCE: Duration = Duration::from_millis(500);

/// The gateway's status for the status page and `/status.json`.
#[derive(Debug)]
pub(crate) struct LiveStatus {
    pub(crate) current: Arc<SharedSnapshot>,
    pub(crate) store: Store,
    metrics: Arc<GatewayMetrics>,
    server: Arc<Server<Snapshot>>,
    pub(crate) overrides: LiveOverrides,
    started: Instant,
    board: Mutex<Option<StatusBoard>>,
    written: Mutex<Written>,
    ticks: watch::Sender<u64>,
}

/// The last written document, as a value and as JSON.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    tick: Option<u64>,
    pub(crate) status: Arc<Status>,
    /// The document as JSON.
    pub(crate) whole: Bytes,
    /// The document as JSON, without series.
    pub(crate) live: Bytes,
}

impl LiveStatus {
    pub(crate) fn new(parts: &Parts) -> Self {
        Self {
            current: parts.current.clone(),
            store: parts.runtime.store.clone(),
            metrics: parts.runtime.metrics.clone(),
            server: parts.server.clone(),
            overrides: parts.runtime.overrides.clone(),
            started: Instant::now(),
            board: Mutex::default(),
            written: Mutex::default(),
            ticks: watch::Sender::new(0),
        }
    }

    /// Samples once a second until the future is dropped.
    pub(crate) async fn keep(&self) {
        let mut every = interval(SAMPLE);
        every.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            let snapshot = self.current.load_full();
            let view = self.view(&snapshot);
            let tick = self.with_board(&view, |board| {
                for text in self.overrides.events() {
                    board.happened("override", text);
                }
                board.second(&view)
            });
            if tick % TURN == 1 {
                let used = timeout(PATIENCE, snapshot.budgets.shared_use()).await;
                let used = used.ok().and_then(Result::ok).unwrap_or_default();
                // A reload may have happened during the call.
                let snapshot = self.current.load_full();
                let view = self.view(&snapshot);
                self.with_board(&view, |board| board.turn(&view, used));
            }
            self.ticks.send_replace(tick);
            every.tick().await;
        }
    }

    /// Records an event, such as a reset, that samples of counters do not show.
    pub(crate) fn happened(&self, kind: &str, text: String) {
        let snapshot = self.current.load_full();
        self.with_board(&self.view(&snapshot), |board| board.happened(kind, text));
    }

    /// Returns a receiver of the number of the last sample, which can wait for the next sample.
    pub(crate) fn ticks(&self) -> watch::Receiver<u64> {
        self.ticks.subscribe()
    }

    /// Returns the document. Writes it at most once per sample, for all readers.
    pub(crate) fn written(&self) -> Written {
        let mut written = self.written.lock();
        let tick = Some(*self.ticks.borrow());
        if written.tick != tick {
            let snapshot = self.current.load_full();
            let view = self.view(&snapshot);
            let mut status = self.with_board(&view, |board| board.document(&view));
            status.overrides = self.overrides.document(&snapshot.budgets.overrides.plans);
            // Writing numbers and strings as JSON cannot fail.
            let json = |status: &Status| serde_json::to_vec(status).unwrap_or_default().into();
            *written = Written {
                tick,
                whole: json(&status),
                live: json(&status.without_series()),
                status: Arc::new(status),
            };
        }
        written.clone()
    }

    fn with_board<T>(&self, view: &View<'_>, act: impl FnOnce(&mut StatusBoard) -> T) -> T {
        let mut board = self.board.lock();
        act(board.get_or_insert_with(|| StatusBoard::new(view)))
    }

    fn view<'a>(&'a self, snapshot: &'a Snapshot) -> View<'a> {
        let stack = &snapshot.stack;
        let routes = (0..stack.routes.count()).map(|at| stack.routes.at(at));
        let routes = routes.map(|route| RouteView {
            name: &route.name,
            path: Some(&*route.pattern),
        });
        let unmatched = snapshot.budgets.policies.first();
        let unmatched = unmatched.map(|policy| RouteView {
            name: &policy.route,
            path: None,
        });
        View {
            configuration: &snapshot.version,
            configured_at: u64::try_from(snapshot.since.as_millisecond()).unwrap_or_default(),
            max_memory: snapshot.max_memory,
            connections: self.server.connections(),
            uptime: self.started.elapsed().as_secs(),
            policies: &snapshot.budgets.policies,
            routes: routes.chain(unmatched).collect(),
            upstreams: &snapshot.upstreams,
            clients: &stack.clients,
            overload: &stack.overload,
            store: &self.store,
            metrics: &self.metrics,
        }
    }
}
