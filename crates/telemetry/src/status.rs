//! Makes the document of `/status.json` and the status page. Once a second, the values of the document are sampled from the counters of the
//! metrics.

mod crowded;
mod document;
mod events;
mod limits;
mod proxies;
mod redis;
mod sample;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tidegate_identity::Clients;
use tidegate_server::Overload;
use tidegate_status::document::{State, Status};
use tidegate_status::{Series, Tracks};
use tidegate_store::{Limit, Store};
use tidegate_tower::Policy;
use tidegate_upstream::Upstream;

use crate::metrics::{GatewayMetrics, LimitSample};
use events::Events;

/// If at least this share of its budget is used, a limit with one budget for all clients has one key near it.
const NEAR: f64 = 0.8;
/// The number of samples of limits that are kept. Ten seconds pass between two samples, so the first and the last are a minute apart.
const SAMPLES: usize = 7;

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
    /// The last samples of the limits, at most [`SAMPLES`], with the latest last. The first sample of a board is empty.
    samples: VecDeque<Samples>,
}

/// A sample of each limit.
type Samples = HashMap<Arc<str>, LimitSample>;

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
            samples: [Samples::new()].into(),
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
        let mut near: HashMap<Arc<str>, usize> = HashMap::new();
        for one in clients.hitters.nearest() {
            if let Some(limit) = clients.limit(one.nearness.limit) {
                *near.entry(limit).or_default() += 1;
            }
        }
        let levels: HashMap<&str, f64> = view.levels(&used).collect();
        let names = view.limits().map(Limit::name);
        let limits = names.map(|name| {
            let used = used.get(name).copied();
            let near = match used {
                // A limit with one budget for all clients has only one key.
                Some(used) => usize::from(used >= NEAR),
                None => near.get(name).copied().unwrap_or_default(),
            };
            let sample = LimitSample {
                near,
                used,
                level: levels.get(name).copied(),
                ..LimitSample::default()
            };
            (name, sample)
        });
        self.samples.push_back(view.metrics.limits.turn(limits));
        if self.samples.len() > SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Returns the last sample of a limit. It is empty before the first sample.
    fn sample(&self, limit: &str) -> LimitSample {
        let last = self.samples.back().and_then(|last| last.get(limit));
        last.copied().unwrap_or_default()
    }

    /// Returns a limit's verdicts of the last minute by the used share of the budget.
    fn used_lately(&self, limit: &str) -> Vec<u64> {
        let first = self.samples.front().and_then(|first| first.get(limit));
        let before = first.copied().unwrap_or_default().used_counts;
        let counts = self.sample(limit).used_counts.into_iter().zip(before);
        counts.map(|(now, before)| now - before).collect()
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
    /// Returns the level of each share that may refuse members, by the name of the share. `used` has the used part of each shared limit.
    fn levels(&self, used: &HashMap<String, f64>) -> impl Iterator<Item = (&str, f64)> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.iter());
        rules.filter_map(|rule| {
            let front = &rule.front.as_ref()?.limit;
            let left = (1.0 - used.get(front.name())?) * front.quota().capacity() as f64;
            let level = rule.limit.quota().share_level(left.round() as u64)?;
            Some((rule.limit.name(), level))
        })
    }

    /// Returns the limits that routes use, in the order of the routes. Each limit is returned once.
    fn limits(&self) -> impl Iterator<Item = &Limit> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.iter());
        let mut seen = HashSet::new();
        let limits = rules.map(|rule| &*rule.limit);
        limits.filter(move |limit| seen.insert(limit.name()))
    }
}
