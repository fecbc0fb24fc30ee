//! What the gateway says of itself on `/status.json` and the status page. All of it is sampled once a second from what is counted
//! anyway.

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
use tidegate_status::document::Status;
use tidegate_store::{Limit, Store};
use tidegate_tower::Policy;
use tidegate_upstream::Upstream;

use crate::metrics::{GatewayMetrics, RouteMetrics};
use sample::Sampled;

/// The gateway as it is now.
#[derive(Debug)]
pub struct View<'a> {
    /// The version of the configuration in force.
    pub configuration: &'a str,
    /// When it was taken, in ms since the epoch.
    pub configured_at: u64,
    /// `max_memory`.
    pub max_memory: Option<u64>,
    /// Connections of clients that are open.
    pub connections: usize,
    /// For how many seconds the gateway has been running.
    pub uptime: u64,
    /// What requests that match no route are charged to, then the policies of all routes.
    pub policies: &'a [Policy],
    /// The routes, in order; then the requests that match none.
    pub routes: Vec<RouteView<'a>>,
    /// The upstreams, by name.
    pub upstreams: &'a HashMap<Arc<str>, Arc<Upstream>>,
    /// The sources of clients, and the proxies that are trusted.
    pub clients: &'a Clients,
    /// How short of memory it is.
    pub overload: &'a Overload,
    /// Where limits are kept.
    pub store: &'a Store,
    /// What it counts.
    pub metrics: &'a GatewayMetrics,
}

/// A route, for those who look.
#[derive(Clone, Copy, Debug)]
pub struct RouteView<'a> {
    /// Its name.
    pub name: &'a Arc<str>,
    /// Its path, as it is written; none: of requests that match no route.
    pub path: Option<&'a str>,
    /// What it counts.
    pub metrics: &'a RouteMetrics,
}

/// What was sampled so far.
#[derive(Debug)]
pub struct StatusBoard(Sampled);

impl StatusBoard {
    /// Begins to sample.
    pub fn new(view: &View<'_>) -> Self {
        Self(Sampled::new(view))
    }

    /// Takes all counters at the end of a second; the number of the second.
    pub fn second(&mut self, view: &View<'_>) -> u64 {
        view.metrics.clients().refusals.refill();
        view.metrics.clients().refused.refill();
        proxies::log(view);
        self.0.second(view)
    }

    /// Ten seconds are over. So much is used of limits that all clients share.
    pub fn turn(&mut self, view: &View<'_>, used: HashMap<String, f64>) {
        view.metrics.clients().hitters.turn();
        self.0.turn(view, used);
    }

    /// Notes an event that no counter shows.
    pub fn happened(&mut self, kind: &str, text: String) {
        self.0.events.happened(kind, text);
    }

    /// The document.
    pub fn document(&self, view: &View<'_>) -> Status {
        document::of(view, &self.0)
    }
}

impl View<'_> {
    /// The limits that routes use, each once, in the order of the routes.
    fn limits(&self) -> impl Iterator<Item = &Limit> {
        let rules = self.policies.iter().flat_map(|policy| policy.rules.iter());
        let mut seen = HashSet::new();
        let limits = rules.map(|rule| &*rule.limit);
        limits.filter(move |limit| seen.insert(limit.name()))
    }
}
