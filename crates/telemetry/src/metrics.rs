//! What the gateway counts, for Prometheus. Handles are found at start; a request only adds.

mod admin;
mod body_costs;
mod build_info;
mod certificates;
mod clients;
mod connections;
mod cut_answers;
mod deny_file;
mod durations;
mod exemplars;
mod format;
mod jwks;
mod limits;
mod overload;
mod overrides;
mod redis;
mod reloads;
mod requests;
mod route;
mod store;
mod synced;
mod tls;
mod traces;
mod unknown_plans;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_store::Store;
use tidegate_tower::WaitQueues;

use crate::access_log::AccessLog;
use crate::log;
use tidegate_net::tls::ShownCertificate;
use tidegate_server::{ListenerName, Overload, ServerMetrics};
use tidegate_upstream::UpstreamMetrics;

pub use admin::AdminMetrics;
use body_costs::BodyCostMetrics;
pub(crate) use clients::epoch_ms;
pub use clients::{
    ClientMetrics, ClientName, LastRefused, MOST_REFUSED, REFUSED_A_SECOND, RefusedAnswer,
};
pub use connections::ConnectionMetrics;
use cut_answers::CutAnswers;
pub use deny_file::DenyFileMetrics;
use durations::Durations;
use exemplars::Exemplars;
pub use format::Format;
use jwks::JwksFamilies;
pub use jwks::JwksMetrics;
pub use limits::{LimitMetrics, VerdictCount};
use overload::OverloadMetrics;
pub use overrides::OverrideMetrics;
use redis::RedisMetrics;
use reloads::ReloadMetrics;
pub use requests::{RequestMetrics, RequestTotals};
pub use route::{OpenTunnel, RouteMetrics};
pub use store::StoreMetrics;
use synced::SyncedMetrics;
pub use tls::TlsMetrics;
use traces::TraceFamilies;
use unknown_plans::UnknownPlans;
use upstream::UpstreamFamilies;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    limit: Arc<str>,
    verdict: &'static str,
    decided_by: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

/// All metrics of a gateway.
#[derive(Debug)]
pub struct GatewayMetrics {
    registry: Registry,
    admin: AdminMetrics,
    access_log_unwritten: Counter,
    requests: RequestMetrics,
    cut_answers: CutAnswers,
    decisions: Family<DecisionLabels, Counter>,
    limits: LimitMetrics,
    clients: Arc<ClientMetrics>,
    exemplars: Exemplars,
    upstream_durations: Family<RouteLabels, Durations>,
    tunnels: Family<RouteLabels, Gauge>,
    exempt: Family<RouteLabels, Counter>,
    store: StoreMetrics,
    connections: ConnectionMetrics,
    overload: OverloadMetrics,
    unknown_keys: Counter,
    unknown_plans: Arc<UnknownPlans>,
    body_costs: BodyCostMetrics,
    tls: TlsMetrics,
    upstreams: UpstreamFamilies,
    reloads: ReloadMetrics,
    key_files: Family<OutcomeLabels, Counter>,
    deny_file: DenyFileMetrics,
    overrides: OverrideMetrics,
    jwks: JwksFamilies,
    traces: TraceFamilies,
    access_log_dropped: Counter,
    log_dropped: Counter,
    redis: Arc<RedisMetrics>,
    synced: SyncedMetrics,
    waiting: Gauge,
    abandoned: Gauge,
    wait_queues: WaitQueues,
}

impl GatewayMetrics {
    /// Metrics of a gateway whose requests wait in these lines.
    pub fn new(wait_queues: WaitQueues) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("tidegate"),
            admin: AdminMetrics::default(),
            access_log_unwritten: Counter::default(),
            requests: RequestMetrics::default(),
            cut_answers: CutAnswers::default(),
            decisions: Family::default(),
            limits: LimitMetrics::default(),
            clients: Arc::default(),
            exemplars: Exemplars::default(),
            upstream_durations: Family::default(),
            tunnels: Family::default(),
            exempt: Family::default(),
            store: StoreMetrics::default(),
            connections: ConnectionMetrics::default(),
            overload: OverloadMetrics::default(),
            unknown_keys: Counter::default(),
            unknown_plans: Arc::default(),
            body_costs: BodyCostMetrics::default(),
            tls: TlsMetrics::default(),
            upstreams: UpstreamFamilies::default(),
            reloads: ReloadMetrics::default(),
            key_files: Family::default(),
            deny_file: DenyFileMetrics::default(),
            overrides: OverrideMetrics::default(),
            jwks: JwksFamilies::default(),
            traces: TraceFamilies::default(),
            access_log_dropped: Counter::default(),
            log_dropped: Counter::default(),
            redis: Arc::default(),
            synced: SyncedMetrics::default(),
            waiting: Gauge::default(),
            abandoned: Gauge::default(),
            wait_queues,
        };
        metrics.register();
        // There from the start, so that the first is seen as a rise.
        for outcome in ["taken", "refused"] {
            let labels = OutcomeLabels { outcome };
            let _ = metrics.key_files.get_or_create_owned(&labels);
        }
        metrics
    }

    fn register(&mut self) {
        let Self { registry, .. } = self;
        build_info::register(registry);
        self.requests.register(registry);
        self.cut_answers.register(registry);
        self.admin.register(registry);
        registry.register(
            "decisions",
            "Verdicts by limit, and whether the store or on_failure gave them",
            self.decisions.clone(),
        );
        self.limits.register(registry);
        registry.register_with_unit(
            "upstream_duration",
            "Time from forwarding a request to the head of its answer",
            Unit::Seconds,
            self.upstream_durations.clone(),
        );
        registry.register(
            "tunnels",
            "Requests that switched protocols and are still open",
            self.tunnels.clone(),
        );
        registry.register(
            "exempt_requests",
            "Requests that an entry of exempt kept from being charged to a limit",
            self.exempt.clone(),
        );
        self.store.register(registry);
        self.connections.register(registry);
        self.overload.register(registry);
        self.tls.register(registry);
        self.upstreams.register(registry);
        self.reloads.register(registry);
        registry.register(
            "unknown_api_keys",
            "Requests with an API key that is not listed",
            self.unknown_keys.clone(),
        );
        registry.register(
            "unknown_plans",
            "Requests whose token names a plan that is not defined",
            self.unknown_plans.requests.clone(),
        );
        self.body_costs.register(registry);
        registry.register(
            "key_file_reads",
            "Changed files with API keys, by whether they were taken or refused",
            self.key_files.clone(),
        );
        self.deny_file.register(registry);
        self.overrides.register(registry);
        self.jwks.register(registry);
        self.traces.register(registry);
        registry.register(
            "access_log_dropped_lines",
            "Access log lines dropped because they could not be written in time",
            self.access_log_dropped.clone(),
        );
        registry.register(
            "access_log_unwritten_refusals",
            "Refused requests without a line, because there were more than max_refusals_per_second",
            self.access_log_unwritten.clone(),
        );
        registry.register(
            "log_dropped_lines",
            "Log lines dropped because standard error was not read in time",
            self.log_dropped.clone(),
        );
        registry.register(
            "waiting_requests",
            "Requests that wait for a limit, or for their turn in a queue",
            self.waiting.clone(),
        );
        registry.register(
            "abandoned_exchanges",
            "Exchanges with upstreams that go on though their clients have left",
            self.abandoned.clone(),
        );
        registry.register_collector(Box::new(self.redis.clone()));
        self.synced.register(registry);
    }

    /// The requests of all routes.
    pub const fn requests(&self) -> &RequestMetrics {
        &self.requests
    }

    /// What limits said, and how much of them is used.
    pub const fn limits(&self) -> &LimitMetrics {
        &self.limits
    }

    /// What is counted of clients.
    pub fn clients(&self) -> &ClientMetrics {
        &self.clients
    }

    /// What is counted of the store.
    pub const fn store(&self) -> &StoreMetrics {
        &self.store
    }

    /// Requests that wait for a limit.
    pub fn waiting(&self) -> usize {
        self.wait_queues.waiting()
    }

    /// What shows how Redis is.
    pub fn redis(&self) -> &RedisMetrics {
        &self.redis
    }

    /// What is counted of clients' connections.
    pub const fn connections(&self) -> &ConnectionMetrics {
        &self.connections
    }

    /// Returns the counters of the admin port.
    pub const fn admin(&self) -> &AdminMetrics {
        &self.admin
    }

    /// The handles of the server.
    pub fn server(&self) -> ServerMetrics {
        ServerMetrics {
            refused: self.overload.refused(),
            failed_handshakes: self.tls.failed_handshakes(),
            idle_closed: self.overload.idle_closed(),
            resting: self.connections.resting(),
            slow_answers: self.connections.slow_answers(),
            untrusted_proxies: self.connections.untrusted_proxies().clone(),
        }
    }

    /// What is counted of TLS towards clients.
    pub const fn tls(&self) -> &TlsMetrics {
        &self.tls
    }

    /// The handles of one upstream.
    pub fn upstream(&self, name: &Arc<str>) -> UpstreamMetrics {
        self.upstreams.of(name)
    }

    /// A reload has put these upstreams and key sets in force. What others were last is shown no more.
    pub fn in_force(&self, upstream: impl Fn(&str) -> bool, key_set: impl Fn(&str) -> bool) {
        self.upstreams.in_force(upstream);
        self.jwks.in_force(key_set);
    }

    /// What is counted of reloads.
    pub const fn reloads(&self) -> &ReloadMetrics {
        &self.reloads
    }

    /// A file with keys has changed, and was taken or refused.
    pub fn key_file_read(&self, outcome: &'static str) {
        self.key_files
            .get_or_create(&OutcomeLabels { outcome })
            .inc();
    }

    /// What is counted of the file with denied networks.
    pub const fn deny_file(&self) -> &DenyFileMetrics {
        &self.deny_file
    }

    /// What is counted of overrides.
    pub const fn overrides(&self) -> &OverrideMetrics {
        &self.overrides
    }

    /// The handles of the key set at `url`.
    pub fn jwks(&self, url: &Arc<str>) -> JwksMetrics {
        self.jwks.of(url)
    }

    /// The handles of traces.
    pub fn traces(&self) -> crate::traces::TraceMetrics {
        self.traces.handles()
    }

    /// Returns the text that Prometheus reads, in this format. Listeners show these certificates.
    pub fn text(
        &self,
        store: &Store,
        shown: impl Iterator<Item = (ListenerName, ShownCertificate)>,
        overload: &Overload,
        access_log: &AccessLog,
        format: Format,
    ) -> String {
        self.store.show(store);
        let waiting = self.wait_queues.waiting().try_into();
        self.waiting.set(waiting.unwrap_or(i64::MAX));
        let abandoned = self.wait_queues.abandoned().try_into();
        self.abandoned.set(abandoned.unwrap_or(i64::MAX));
        // Counted elsewhere, and only shown here.
        let show = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        show(&self.access_log_dropped, access_log.lost());
        show(&self.access_log_unwritten, access_log.unwritten());
        show(&self.log_dropped, log::dropped_lines());
        self.tls.show(shown);
        self.overload.show(overload);
        self.synced.show(&store.synced_usage());
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        self.written(text, format)
    }

    /// OpenMetrics text in this format, with exemplars if the format has them.
    fn written(&self, open_metrics: String, format: Format) -> String {
        match format {
            Format::Text => format::text(&open_metrics),
            Format::OpenMetrics => self.exemplars.add_to(open_metrics),
        }
    }
}
