//! The document of `/status.json`.
//!
//! A field may be added at any time, so readers ignore unknown fields. [`VERSION`] grows if a field changes its meaning or is removed.

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

/// The current state of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The version of the document: [`VERSION`].
    pub version: u32,
    /// Time of writing, in ms since the epoch.
    pub at: u64,
    /// The number of samples since the start, one a second. The last value of each series belongs to the last sample.
    pub tick: u64,
    /// The running process.
    pub gateway: Gateway,
    /// The state, and the reasons for it.
    pub health: Health,
    /// Networks of proxies for which `trusted_proxies` or the expected header in the configuration seems wrong.
    pub untrusted_proxies: Vec<UntrustedProxy>,
    /// All requests.
    pub requests: Requests,
    /// The limits that routes or the listener for decisions use.
    pub limits: Vec<Limit>,
    /// The clients with the highest use and the most refusals, and clients near a limit.
    pub clients: Clients,
    /// The routes, and an entry for requests that matched no route.
    pub routes: Vec<Route>,
    /// The upstreams.
    pub upstreams: Vec<Upstream>,
    /// The store of the limits.
    pub store: Store,
    /// The last refusals.
    pub refusals: Refusals,
    /// Changes that operators made at run time.
    pub overrides: Overrides,
    /// The last events, the latest first.
    pub events: Vec<Event>,
}

/// The running process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// The version of the program.
    pub version: String,
    /// The version of the configuration in force.
    pub configuration: String,
    /// The time at which the configuration took effect, in ms since the epoch.
    pub configured_at: u64,
    /// Uptime in seconds.
    pub uptime_seconds: u64,
    /// Open connections of clients.
    pub connections: u64,
    /// Requests that wait for their turn at a limit.
    pub waiting: u64,
    /// The memory of the process. 0 if the operating system does not report it.
    pub memory_bytes: u64,
    /// The configured `max_memory`. `None` if memory has no bound.
    pub memory_max_bytes: Option<u64>,
}

/// A network whose peers send a proxy header but are not in `trusted_proxies`, or are in `trusted_proxies` but do not send the header from
/// which the gateway reads clients' addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UntrustedProxy {
    /// The network, such as `10.0.3.0/24`.
    pub network: String,
    /// The address of the last connection.
    pub address: String,
    /// The header on the last connection: `X-Forwarded-For`, `Forwarded` or `PROXY`. `missing` if the expected header was missing.
    pub header: String,
    /// Connections that were counted for this network. A connection without the expected header counts only if a limit refused a request on
    /// it.
    pub connections: u64,
    /// Sentences that describe the effect of the mistake, and the lines to add to the configuration.
    pub text: String,
}

/// The state, and the reasons for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// The worst state of all reasons.
    pub state: State,
    /// The reasons for a state that is not `ok`, in sentences.
    pub reasons: Vec<String>,
}

impl Health {
    /// Adds a reason.
    pub fn add(&mut self, state: State, reason: String) {
        self.state = self.state.max(state);
        self.reasons.push(reason);
    }
}

/// A state, from good to bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No problem.
    #[default]
    Ok,
    /// Requests are served, but an operator should check the reason.
    Warning,
    /// Requests fail.
    Failing,
}

/// All requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Requests since the start.
    pub total: u64,
    /// Requests since the start, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Counts of the last second.
    pub second: RequestCounts,
    /// Counts of the last minute.
    pub minute: RequestCounts,
    /// Requests over time. Documents of the event stream have no series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Columns<RequestSeries>>,
}

/// Requests in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCounts {
    /// All requests that ended.
    pub all: u64,
    /// Requests that limits refused.
    pub refused: u64,
    /// Requests that failed: the store or the upstream did not answer, or the request was shed.
    pub failed: u64,
    /// Mean time of a request, in ms.
    pub mean_ms: f64,
}

/// A series by seconds and by minutes, the latest value last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Columns<T> {
    /// The values of the last seconds, at most 300.
    pub seconds: T,
    /// The values of the last minutes, at most 240.
    pub minutes: T,
}

/// Requests over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestSeries {
    /// All requests that ended.
    pub all: Vec<u32>,
    /// Requests that limits refused.
    pub refused: Vec<u32>,
    /// Requests that failed.
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
    /// The parts of its key, such as `client`.
    pub per: Vec<String>,
    /// The capacity, queue or limit of the quota, depending on the algorithm.
    pub of: u64,
    /// The long-term rate, in units a second. `None` for `concurrency`.
    pub rate: Option<f64>,
    /// The mode in which gateways share the limit.
    pub mode: String,
    /// Whether the limit only observes, and refuses no request.
    pub observed: bool,
    /// The routes that use it.
    pub routes: Vec<String>,
    /// Verdicts since the start.
    pub total: Verdicts,
    /// Verdicts since the start, by decider: `store`, `gateway`, `remembered`, `on_failure`.
    pub decided_by: BTreeMap<String, u64>,
    /// Verdicts in the last second.
    pub second: Verdicts,
    /// Verdicts in the last minute.
    pub minute: Verdicts,
    /// Keys that had a fifth of the quota or less left at a request in the last minute. Keys that the gateway has dropped from its table of
    /// such keys are not counted.
    pub near_keys: u64,
    /// The used share of the budget, from 0 to 1. `None` unless the limit has one budget for all clients.
    pub used: Option<f64>,
    /// The units that a member of weight 1 may use in a window before its share refuses it. `None` unless the limit is a share, and less than
    /// half of its limit is left.
    pub level: Option<f64>,
    /// The estimated number of different clients in the last minute, with a standard error of 5 %.
    pub clients: u64,
    /// Verdicts of the last minute by the used share of the budget: up to 0.1, 0.25, 0.5, 0.8, 0.9 and 1.
    pub used_shares: Vec<u64>,
    /// Verdicts over time. Documents of the event stream have no series.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Columns<LimitSeries>>,
}

/// Counts of a limit's verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Verdicts {
    /// Requests that the limit allowed.
    pub admitted: u64,
    /// Requests that the limit refused.
    pub refused: u64,
    /// Requests that the limit would have refused if it were enforced.
    pub would_refuse: u64,
    /// Requests for which the limit had no verdict.
    pub undecided: u64,
}

impl Verdicts {
    /// Returns the sum of the four counts: all requests to which the limit applied.
    pub const fn asked(&self) -> u64 {
        self.admitted + self.refused + self.would_refuse + self.undecided
    }
}

/// Verdicts over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitSeries {
    /// Requests that the limit allowed.
    pub admitted: Vec<u32>,
    /// Requests that the limit refused.
    pub refused: Vec<u32>,
    /// Requests that the limit would have refused if it were enforced.
    pub would_refuse: Vec<u32>,
}

/// The clients with the highest use and the most refusals, and clients near a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clients {
    /// The clients with the highest counts of the last minute.
    pub minute: Hits,
    /// The clients with the highest counts since the start.
    pub start: Hits,
    /// Clients near a limit in the last minute, the nearest first.
    pub near: Vec<Near>,
}

/// The clients with the highest counts, in a table for each measure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hits {
    /// Units that limits admitted.
    pub admitted: Table,
    /// Requests that limits refused.
    pub refused: Table,
}

/// The clients with the highest counts of one measure: admitted units or refused requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Table {
    /// The exact sum of the counts of all clients.
    pub total: u64,
    /// An upper bound for the count of each client that is not in `top`.
    pub others_at_most: u64,
    /// At most 100 clients, the highest count first.
    pub top: Vec<Client>,
}

/// A client with its count, which is between `at_least` and `at_most`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// The client's name.
    pub name: String,
    /// Whether the name was too long and is cut off.
    pub is_cut: bool,
    /// The lower bound.
    pub at_least: u64,
    /// The upper bound.
    pub at_most: u64,
}

/// A client near a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Near {
    /// The client's name.
    pub name: String,
    /// Whether the name is cut off.
    pub is_cut: bool,
    /// The limit.
    pub limit: String,
    /// Units left at the last request.
    pub left: u64,
    /// The capacity, queue or limit of the quota, depending on the algorithm.
    pub of: u64,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// Its path in the configuration. `None` for the requests that matched no route.
    pub path: Option<String>,
    /// Requests since the start.
    pub total: u64,
    /// Requests since the start, by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Counts of the last second.
    pub second: RequestCounts,
    /// Counts of the last minute.
    pub minute: RequestCounts,
}

/// The last refusals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusals {
    /// The kept refusals, at most 20 from each second, the latest first.
    pub recent: Vec<Refusal>,
    /// Refusals since the start that were not kept, because there were too many in one second.
    pub left_out: u64,
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refusal {
    /// Time, in ms since the epoch.
    pub at: u64,
    /// The client's name.
    pub client: String,
    /// Whether the name is cut off.
    pub is_cut: bool,
    /// The limit that refused.
    pub limit: String,
    /// The route of the request.
    pub route: String,
    /// Seconds until the client may retry.
    pub retry_after: u64,
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Time, in ms since the epoch.
    pub at: u64,
    /// The kind: `start`, `reload`, `reload_refused`, `reset`, `override`, `redis`, `breaker`, `upstream`, `memory` or `keys`.
    pub kind: String,
    /// The state that the event shows: `ok`, `warning` or `failing`.
    pub state: State,
    /// The event, in a sentence.
    pub text: String,
}

impl Status {
    /// Returns the document without series, for the event stream.
    pub fn without_series(&self) -> Self {
        let mut status = self.clone();
        status.drop_series();
        status
    }

    /// Removes the series, which documents of the event stream do not have.
    pub fn drop_series(&mut self) {
        self.requests.series = None;
        for limit in &mut self.limits {
            limit.series = None;
        }
    }
}
