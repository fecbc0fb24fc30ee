//! The document of `/status.json`.
//!
//! A field may be added at any time, and readers ignore fields that they do not know. [`VERSION`] grows if a field changes its
//! meaning or goes.

mod overrides;
mod refused;
mod services;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use overrides::{Override, Overrides};
pub use refused::Refused;
pub use services::{Node, Redis, Server, Store, Upstream};

/// The version of the document.
pub const VERSION: u32 = 1;

/// A gateway as it is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// When this was written, in ms since the epoch.
    pub at: u64,
    /// Seconds that were sampled so far: the number of the last value of each series.
    pub tick: u64,
    /// The process.
    pub gateway: Gateway,
    /// Whether all is well.
    pub health: Health,
    /// Networks from which proxies seem to connect that are not trusted.
    pub untrusted_proxies: Vec<UntrustedProxy>,
    /// All requests.
    pub requests: Requests,
    /// The limits that routes use.
    pub limits: Vec<Limit>,
    /// Who stands out.
    pub clients: Clients,
    /// The routes, and the requests that matched none.
    pub routes: Vec<Route>,
    /// The upstreams.
    pub upstreams: Vec<Upstream>,
    /// Where limits are kept.
    pub store: Store,
    /// The last refusals.
    pub refusals: Refusals,
    /// What operators set at run time.
    pub overrides: Overrides,
    /// What happened lately, the latest first.
    pub events: Vec<Event>,
}

/// The process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// Its version.
    pub version: String,
    /// The version of the configuration in force.
    pub configuration: String,
    /// When that was taken, in ms since the epoch.
    pub configured_at: u64,
    /// For how long it has been running.
    pub uptime_seconds: u64,
    /// Connections of clients that are open.
    pub connections: u64,
    /// Requests that wait for a limit.
    pub waiting: u64,
    /// What the process takes; 0: the system does not say.
    pub memory_bytes: u64,
    /// `max_memory`.
    pub memory_max_bytes: Option<u64>,
}

/// A network that sends a header of proxies and is not trusted, or that is trusted and sends none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UntrustedProxy {
    /// The network, such as `10.0.3.0/24`.
    pub network: String,
    /// The address of the last connection.
    pub address: String,
    /// The header: `X-Forwarded-For`, `Forwarded` or `PROXY`; `missing`: none.
    pub header: String,
    /// Connections with such a header, or without one and with a refusal by a limit.
    pub connections: u64,
    /// The effect, and the lines to add to the configuration, in sentences.
    pub text: String,
}

/// Whether all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The worst of the reasons.
    pub state: State,
    /// What is not well, in sentences.
    pub reasons: Vec<String>,
}

impl Health {
    /// Adds a reason.
    pub fn add(&mut self, state: State, reason: String) {
        self.state = self.state.max(state);
        self.reasons.push(reason);
    }
}

/// How well something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// All is well.
    #[default]
    Ok,
    /// Requests are served, and somebody should look.
    Warning,
    /// Requests fail.
    Failing,
}

/// All requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Since the start.
    pub total: u64,
    /// The same by what became of them.
    pub outcomes: BTreeMap<String, u64>,
    /// In the last second.
    pub second: RequestCounts,
    /// In the last minute.
    pub minute: RequestCounts,
    /// Over time; not in the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Columns<RequestSeries>>,
}

/// Requests in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCounts {
    /// All that ended.
    pub all: u64,
    /// Refused by limits.
    pub refused: u64,
    /// Failed: no store, no upstream, or shed.
    pub failed: u64,
    /// How long one took on average, in ms.
    pub mean_ms: f64,
}

/// A series by seconds and by minutes, the latest value last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Columns<T> {
    /// 300 seconds at most.
    pub seconds: T,
    /// 240 minutes at most.
    pub minutes: T,
}

/// Requests over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestSeries {
    /// All that ended.
    pub all: Vec<u32>,
    /// Refused by limits.
    pub refused: Vec<u32>,
    /// Failed.
    pub failed: Vec<u32>,
}

/// A limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limit {
    /// Its name.
    pub name: String,
    /// Its algorithm.
    pub algorithm: String,
    /// What it is counted per.
    pub per: Vec<String>,
    /// The capacity, queue or limit.
    pub of: u64,
    /// What it admits in the long run, in units a second; none for `concurrency`.
    pub rate: Option<f64>,
    /// How gateways share it.
    pub mode: String,
    /// Whether it only observes.
    pub observed: bool,
    /// The routes that use it.
    pub routes: Vec<String>,
    /// Verdicts since the start.
    pub total: Verdicts,
    /// The same by who decided: `store`, `gateway`, `remembered`, `on_failure`.
    pub decided_by: BTreeMap<String, u64>,
    /// Verdicts in the last second.
    pub second: Verdicts,
    /// Verdicts in the last minute.
    pub minute: Verdicts,
    /// Keys seen in the last minute with a fifth or less left, as far as the gateway remembers them.
    pub near_keys: u64,
    /// How much of a limit is used that all clients share, from 0 to 1.
    pub used: Option<f64>,
    /// Over time; not in the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Columns<LimitSeries>>,
}

/// What a limit said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdicts {
    /// Requests that it allowed.
    pub admitted: u64,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that it would have refused if it did not only observe.
    pub would_refuse: u64,
    /// Requests about which nobody could be asked.
    pub undecided: u64,
}

impl Verdicts {
    /// How often it was asked.
    pub const fn asked(&self) -> u64 {
        self.admitted + self.refused + self.would_refuse + self.undecided
    }
}

/// Verdicts over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitSeries {
    /// Allowed.
    pub admitted: Vec<u32>,
    /// Refused.
    pub refused: Vec<u32>,
    /// Observed, and would have been refused.
    pub would_refuse: Vec<u32>,
}

/// Who stands out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clients {
    /// In the last minute.
    pub minute: Hits,
    /// Since the start.
    pub start: Hits,
    /// Near a limit in the last minute, the nearest first.
    pub near: Vec<Near>,
}

/// Who stands out, by what is counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hits {
    /// Units that limits admitted.
    pub admitted: Table,
    /// Requests that limits refused.
    pub refused: Table,
}

/// The first clients, each with its error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// Of all clients together, exactly.
    pub total: u64,
    /// No client that is not listed has more.
    pub others_at_most: u64,
    /// The first 100, those with most first.
    pub top: Vec<Client>,
}

/// A client's figure: between `at_least` and `at_most`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// Who it is.
    pub name: String,
    /// Whether the name is too long, and cut off here.
    pub is_cut: bool,
    /// It has so much for certain.
    pub at_least: u64,
    /// It has no more.
    pub at_most: u64,
}

/// A client near a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Near {
    /// Who it is.
    pub name: String,
    /// Whether the name is cut off.
    pub is_cut: bool,
    /// The limit.
    pub limit: String,
    /// What was left when it was last seen.
    pub left: u64,
    /// Of how much.
    pub of: u64,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Its path, as it is written; none for requests that matched no route.
    pub path: Option<String>,
    /// Requests since the start.
    pub total: u64,
    /// The same by what became of them.
    pub outcomes: BTreeMap<String, u64>,
    /// In the last second.
    pub second: RequestCounts,
    /// In the last minute.
    pub minute: RequestCounts,
}

/// The last refusals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusals {
    /// 20 a second at most, the latest first.
    pub recent: Vec<Refusal>,
    /// How many refusals since the start are not listed because there were too many at once.
    pub left_out: u64,
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// When, in ms since the epoch.
    pub at: u64,
    /// Who was refused.
    pub client: String,
    /// Whether the name is cut off.
    pub is_cut: bool,
    /// By which limit.
    pub limit: String,
    /// On which route.
    pub route: String,
    /// When it may come again, in seconds.
    pub retry_after: u64,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// When, in ms since the epoch.
    pub at: u64,
    /// `start`, `reload`, `reload_refused`, `reset`, `override`, `redis`, `breaker`, `upstream`, `memory` or `keys`.
    pub kind: String,
    /// How good the news is.
    pub state: State,
    /// What happened, in a sentence.
    pub text: String,
}

impl Status {
    /// The same without series, as the stream has it.
    pub fn without_series(&self) -> Self {
        let mut status = self.clone();
        status.drop_series();
        status
    }

    /// Drops what the stream does not have.
    pub fn drop_series(&mut self) {
        self.requests.series = None;
        for limit in &mut self.limits {
            limit.series = None;
        }
    }
}
