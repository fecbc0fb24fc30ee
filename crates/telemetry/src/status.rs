//! Makes the document of `/status.json` and the status page. Once a second, the values of the document are sampled from the counters of the
//! metrics.

mod crowded;
mod document;
mod events;
mod limits;
mod proxies;
mod redis;
mod sample;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tidegate_identity::Clients;
use tidegate_server::Overload;
use tidegate_status::document::{State, Status};
use tidegate_status::{Series, Tracks};
use tidegate_store::{Limit, Store};
use tidegate_tower::Policy;
use tidegate_upstream::Upstream;

use crate::metrics::GatewayMetrics;
use events::Events;

/// If at least this share of its budget is used, a limit with one budget for all clients has one key near it.
const NEAR: f64 = 0.8;

/// The parts of the gateway that the document is made from.
#[derive(Debug)]
pub struct View<'a> {
    /// The version of the configuration in force.
    pub configuration: &'a str,
    /// The time at which the configuration took effect, in ms since the epoch.
    pub configured_at: u64,
    /// The configured `max_memory`. `None` if memory has no bound.
    pub max_memory: Option<u64>,
    /// Open connections of clients.
    pub connections: usize,
    /// Uptime, in seconds.
    pub uptime: u64,
    /// The policy for requests that match no route, the policies of all routes, and the policy of the listener for decisions, if there is
    /// such a listener.
    pub policies: &'a [Policy],
    /// The routes, in order, followed by an entry for requests that match no route.
    pub routes: Vec<RouteView<'a>>,
    /// The upstreams, by name.
    pub upstreams: &'a HashMap<Arc<str>, Arc<Upstream>>,
    /// The sources of clients' names, and the trusted proxies.
    pub clients: &'a Clients,
    /// The memory of the process, and whether memory is short.
    pub overload: &'a Overload,
    /// The store of the limits.
    pub store: &'a Store,
    /// The metrics.
    pub metrics: &'a GatewayMetrics,
}

/// A route in the document.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its path in the configuration. `None` for requests that match no route.
    pub path: Option<&'a str>,
}

/// The samples since the start, from which the document is made.
#[derive(Debug)]
pub struct StatusBoard {
    tick: u64,
    requests: Series<4>,
    routes: Tracks<4>,
    limits: Tracks<4>,
    store: Series<3>,
    events: Events,
    /// The number of keys near each limit.
    near: HashMap<Arc<str>, usize>,
    /// The used share of each limit with one budget for all clients.
    used: HashMap<String, f64>,
}

impl StatusBoard {
    /// Returns a board without samples. The first sample adds the increases from the current counters.
    pub fn new(view: &View<'_>) -> Self {
        let metrics = view.metrics;
        Self {
            tick: 0,
            requests: Series::new(sample::requests(&metrics.requests.totals())),
            routes: Tracks::default(),
            limits: Tracks::default(),
            store: Series::new(sample::store(metrics)),
            events: Events::new(view),
            near: HashMap::new(),
            used: HashMap::new(),
        }
    }

    /// Samples all counters at the end of a second. Returns the number of samples so far.
    pub fn second(&mut self, view: &View<'_>) -> u64 {
        let metrics = view.metrics;
        metrics.clients().refusals.refill();
        metrics.clients().refused.refill();
        proxies::log(view);
        self.requests
            .sample(sample::requests(&metrics.requests.totals()));
        let routes = view.routes.iter().map(|route| {
            let totals = metrics.requests.totals_of(route.name);
            (route.name.clone(), sample::requests(&totals))
        });
        self.routes.sample(routes);
        let names = view.limits().map(Limit::name);
        self.limits
            .sample(names.map(|name| (name.into(), sample::verdicts(metrics, name))));
        self.store.sample(sample::store(metrics));
        let calls = [0, 2].map(|counter| self.store.lately(counter, 1));
        self.events.look(view, calls);
        self.tick += 1;
        self.tick
    }

    /// Ends a time slice of ten seconds. `used` has the used share of each limit with one budget for all clients.
    pub fn turn(&mut self, view: &View<'_>, used: HashMap<String, f64>) {
        let clients = view.metrics.clients();
        clients.hitters.turn();
        self.near.clear();
        for near in clients.hitters.nearest() {
            if let Some(limit) = clients.limit(near.nearness.limit) {
                *self.near.entry(limit).or_default() += 1;
            }
        }
        for (limit, used) in &used {
            // A limit with one budget for all clients has only one key.
            if *used >= NEAR {
                self.near.insert(limit.as_str().into(), 1);
            }
        }
        self.used = used;
        let near = |name| self.near.get(name).copied().unwrap_or_default();
        let names = view.limits().map(Limit::name);
        let sampled = names.map(|name| (name, near(name), self.used.get(name).copied()));
        view.metrics.limits.sampled(sampled);
    }

    /// Adds an event that cannot be derived from counters.
    pub fn happened(&mut self, kind: &str, text: String) {
        self.events.add(kind, State::Ok, text);
    }

    /// Returns the document.
    pub fn document(&self, view: &View<'_>) -> Status {
        document::of(view, self)
    }
}

impl View<'_> {
    /// Returns the limits that routes use, in the order of the routes. Each limit is returned once.
    fn limits(&self) -> impl Iterator<Item = &Limit> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.iter());
        let mut seen = HashSet::new();
        let limits = rules.map(|rule| &*rule.limit);
        limits.filter(move |limit| seen.insert(limit.name()))
    }
}
