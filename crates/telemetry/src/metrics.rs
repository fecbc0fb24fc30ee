//! Metrics of the gateway, for Prometheus. The counters of a route are looked up when the configuration is loaded, so a request only adds
//! to them.

mod admin;
mod budget_events;
mod build_info;
mod certificates;
mod clients;
mod connections;
mod deny_file;
mod durations;
mod exemplars;
mod format;
mod jwks;
mod limits;
mod overload;
mod overrides;
mod redis;
mod registrar;
mod reloads;
mod requests;
mod route;
mod seen_clients;
mod store;
mod synced;
mod tls;
mod unknown_plans;
mod upstream;
mod used_shares;

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_store::Store;
use tidegate_tower::WaitQueues;

use crate::access_log::AccessLog;
use crate::log;
use crate::outcome::Door;
use crate::traces::TraceMetrics;
use tidegate_net::tls::ShownCertificate;
use tidegate_server::{ListenerName, Overload, ServerMetrics};
use tidegate_upstream::UpstreamMetrics;

pub use admin::AdminMetrics;
pub use budget_events::BudgetEventMetrics;
pub(crate) use clients::epoch_ms;
pub use clients::{
    ClientMetrics, ClientName, LastRefused, MOST_REFUSED, REFUSED_A_SECOND, RefusedAnswer,
};
pub use connections::ConnectionMetrics;
pub use deny_file::DenyFileMetrics;
use durations::Durations;
use exemplars::Exemplars;
pub use format::Format;
use jwks::JwksFamilies;
pub use jwks::JwksMetrics;
use limits::LimitMetrics;
pub(crate) use limits::LimitSample;
use overload::OverloadMetrics;
pub use overrides::OverrideMetrics;
use redis::RedisMetrics;
use registrar::{ByLabel, Registrar, Words, set, show};
use reloads::ReloadMetrics;
use requests::RequestMetrics;
pub use requests::RequestTotals;
pub use route::{OpenTunnel, RouteMetrics};
use store::StoreMetrics;
use synced::SyncedMetrics;
pub use tls::TlsMetrics;
use unknown_plans::UnknownPlans;
use upstream::UpstreamFamilies;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    limit: Arc<str>,
    verdict: &'static str,
    decided_by: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CutLabels {
    route: Arc<str>,
    by: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BodyCostLabels {
    route: Arc<str>,
    result: &'static str,
}

/// All metrics of a gateway.
#[derive(Debug)]
pub struct GatewayMetrics {
    // The metrics of the process, whose names have no prefix.
    process: Registry,
    registry: Registry,
    /// The requests of all routes.
    pub(crate) requests: RequestMetrics,
    cut_answers: Family<CutLabels, Counter>,
    admin: AdminMetrics,
    decisions: Family<DecisionLabels, Counter>,
    /// The verdicts of limits, and the use of limits.
    pub(crate) limits: LimitMetrics,
    upstream_durations: ByLabel<Arc<str>, Durations>,
    tunnels: ByLabel<Arc<str>, Gauge>,
    exempt: ByLabel<Arc<str>, Counter>,
    /// The metrics of the store.
    pub(crate) store: StoreMetrics,
    connections: ConnectionMetrics,
    overload: OverloadMetrics,
    tls: TlsMetrics,
    upstreams: UpstreamFamilies,
    reloads: ReloadMetrics,
    unknown_keys: Counter,
    unmatched_descriptors: ByLabel<Arc<str>, Counter>,
    unknown_plans: Arc<UnknownPlans>,
    body_costs: Family<BodyCostLabels, Counter>,
    key_files: Words,
    deny_file: DenyFileMetrics,
    overrides: OverrideMetrics,
    budget_events: BudgetEventMetrics,
    jwks: JwksFamilies,
    traces: Words,
    refused_spans: Counter,
    access_log_dropped: Counter,
    access_log_unwritten: Counter,
    log_dropped: Counter,
    waiting: Gauge,
    abandoned: Gauge,
    held_decisions: ByLabel<&'static str, Gauge>,
    synced: SyncedMetrics,
    redis: Arc<RedisMetrics>,
    clients: Arc<ClientMetrics>,
    exemplars: Exemplars,
    wait_queues: WaitQueues,
}

impl GatewayMetrics {
    /// Returns the metrics of a gateway. `wait_queues` has the gateway's waiting requests.
    pub fn new(wait_queues: WaitQueues) -> Self {
        let mut registrar = Registrar(Registry::with_prefix("tidegate"));
        build_info::register(&mut registrar);
        // The fields are in the order in which `/metrics` lists them.
        Self {
            requests: RequestMetrics::new(&mut registrar),
            cut_answers: registrar.add(
                "cut_answers",
                "Answers of upstreams that ended before their end, by the side that ended them",
            ),
            admin: AdminMetrics::new(&mut registrar),
            decisions: registrar.add(
                "decisions",
                "Verdicts by limit, and whether the store or on_failure gave them",
            ),
            limits: LimitMetrics::new(&mut registrar),
            upstream_durations: ByLabel::new(
                "route",
                registrar.add_with_unit(
                    "upstream_duration",
                    Unit::Seconds,
                    "Time from forwarding a request to the head of its answer",
                ),
            ),
            tunnels: registrar.add_family(
                "tunnels",
                "route",
                "Requests that switched protocols and are still open",
            ),
            exempt: registrar.add_family(
                "exempt_requests",
                "route",
                "Requests that an entry of exempt kept from being charged to a limit",
            ),
            store: StoreMetrics::new(&mut registrar),
            connections: ConnectionMetrics::new(&mut registrar),
            overload: OverloadMetrics::new(&mut registrar),
            tls: TlsMetrics::new(&mut registrar),
            upstreams: UpstreamFamilies::new(&mut registrar),
            reloads: ReloadMetrics::new(&mut registrar),
            unknown_keys: registrar.add(
                "unknown_api_keys",
                "Requests with an API key that is not listed",
            ),
            unknown_plans: Arc::new(UnknownPlans::new(&mut registrar)),
            unmatched_descriptors: registrar.add_family(
                "unmatched_descriptors",
                "domain",
                "Descriptors of RateLimitService calls for which no limit is configured",
            ),
            body_costs: registrar.add(
                "body_costs",
                "Answers whose bodies are to say what their requests cost, by whether they did",
            ),
            key_files: registrar
                .add_family(
                    "key_file_reads",
                    "outcome",
                    "Changed files with API keys, by whether they were taken or refused",
                )
                .with(["taken", "refused"]),
            deny_file: DenyFileMetrics::new(&mut registrar),
            overrides: OverrideMetrics::new(&mut registrar),
            budget_events: BudgetEventMetrics::new(&mut registrar),
            jwks: JwksFamilies::new(&mut registrar),
            traces: registrar.add_family(
                "traces",
                "outcome",
                "Sampled traces, by whether they were recorded and the collector took them",
            ),
            refused_spans: registrar.add(
                "refused_spans",
                "Spans that the collector refused of batches that it took",
            ),
            access_log_dropped: registrar.add(
                "access_log_dropped_lines",
                "Access log lines dropped because they could not be written in time",
            ),
            access_log_unwritten: registrar.add(
                "access_log_unwritten_refusals",
                "Refused requests without a line, because there were more than max_refusals_per_second",
            ),
            log_dropped: registrar.add(
                "log_dropped_lines",
                "Log lines dropped because standard error was not read in time",
            ),
            waiting: registrar.add(
                "waiting_requests",
                "Requests that wait for a limit, or for their turn in a queue",
            ),
            abandoned: registrar.add(
                "abandoned_exchanges",
                "Exchanges with upstreams that go on though their clients have left",
            ),
            held_decisions: registrar.add_family(
                "held_decisions",
                "door",
                "Decisions for other programs that hold units until a settlement or a refund",
            ),
            synced: SyncedMetrics::new(&mut registrar),
            redis: registrar.add_collector(),
            clients: Arc::default(),
            exemplars: Exemplars::default(),
            wait_queues,
            process: build_info::of_process(),
            registry: registrar.0,
        }
    }

    /// Returns the counts for each client.
    pub fn clients(&self) -> &ClientMetrics {
        &self.clients
    }

    /// Returns the number of requests that wait for their turn at a limit.
    pub fn waiting(&self) -> usize {
        self.wait_queues.waiting()
    }

    /// Returns the state of Redis, and the figures of its servers.
    pub fn redis(&self) -> &RedisMetrics {
        &self.redis
    }

    /// Returns the metrics of clients' connections.
    pub const fn connections(&self) -> &ConnectionMetrics {
        &self.connections
    }

    /// Returns the counters of the admin port.
    pub const fn admin(&self) -> &AdminMetrics {
        &self.admin
    }

    /// Returns the counters and gauges that the server for client connections updates.
    pub fn server(&self) -> ServerMetrics {
        ServerMetrics {
            refused: self.overload.refused.clone(),
            failed_handshakes: self.tls.failed_handshakes.clone(),
            idle_closed: self.overload.idle_closed.clone(),
            resting: self.connections.resting.clone(),
            slow_answers: self.connections.slow_answers.clone(),
            untrusted_proxies: self.connections.untrusted_proxies().clone(),
        }
    }

    /// Returns the metrics of TLS connections from clients.
    pub const fn tls(&self) -> &TlsMetrics {
        &self.tls
    }

    /// Returns the metrics of one upstream.
    pub fn upstream(&self, name: &Arc<str>) -> UpstreamMetrics {
        self.upstreams.of(name)
    }

    /// Removes the gauges of each upstream and each key set for which `upstream` or `key_set` returns false. The caller must call this
    /// function after a reload.
    pub fn in_force(&self, upstream: impl Fn(&str) -> bool, key_set: impl Fn(&str) -> bool) {
        self.upstreams.in_force(upstream);
        self.jwks.in_force(key_set);
    }

    /// Returns the metrics of reloads.
    pub const fn reloads(&self) -> &ReloadMetrics {
        &self.reloads
    }

    /// Counts a read of a changed file of API keys. `outcome` is `taken` or `refused`.
    pub fn key_file_read(&self, outcome: &'static str) {
        self.key_files.inc(outcome);
    }

    /// Returns the metrics of the file with denied networks.
    pub const fn deny_file(&self) -> &DenyFileMetrics {
        &self.deny_file
    }

    /// Returns the metrics of budgets that reach a threshold.
    pub const fn budget_events(&self) -> &BudgetEventMetrics {
        &self.budget_events
    }

    /// Returns the metrics of overrides.
    pub const fn overrides(&self) -> &OverrideMetrics {
        &self.overrides
    }

    /// Returns the metrics of the key set at `url`.
    pub fn jwks(&self, url: &Arc<str>) -> JwksMetrics {
        self.jwks.of(url)
    }

    /// Returns the counter of descriptors in this domain for which no limit is configured.
    pub fn unmatched_descriptors(&self, domain: &str) -> Counter {
        self.unmatched_descriptors.get(domain.into())
    }

    /// Returns the gauge for decisions by this door that hold units.
    pub fn held_decisions(&self, door: Door) -> Gauge {
        self.held_decisions.get(door.label().unwrap_or_default())
    }

    /// Returns the counters of traces.
    pub fn traces(&self) -> TraceMetrics {
        TraceMetrics {
            sent: self.traces.get("sent"),
            failed: self.traces.get("failed"),
            refused_spans: self.refused_spans.clone(),
            dropped: self.traces.get("dropped"),
            beyond: self.traces.get("over_bound"),
        }
    }

    /// Returns all metrics as text in this format. `shown` has the certificates of the listeners.
    pub fn text(
        &self,
        store: &Store,
        shown: impl Iterator<Item = (ListenerName, ShownCertificate)>,
        overload: &Overload,
        access_log: &AccessLog,
        format: Format,
    ) -> String {
        self.store.show(store);
        set(&self.waiting, self.wait_queues.waiting());
        set(&self.abandoned, self.wait_queues.abandoned());
        show(&self.access_log_dropped, access_log.lost());
        show(&self.access_log_unwritten, access_log.unwritten());
        show(&self.log_dropped, log::dropped_lines());
        self.tls.ends.show(shown);
        self.overload.show(overload);
        self.synced.show(&store.synced_usage());
        let mut text = String::new();
        // A write to a String cannot fail.
        let _ = encode_registry(&mut text, &self.process)
            .and_then(|()| encode_registry(&mut text, &self.registry))
            .and_then(|()| encode_eof(&mut text));
        self.written(text, format)
    }

    /// Converts OpenMetrics text to this format. Adds exemplars if the format supports them.
    fn written(&self, open_metrics: String, format: Format) -> String {
        match format {
            Format::Text => format::text(&open_metrics),
            Format::OpenMetrics => self.exemplars.add_to(open_metrics),
        }
    }
}
