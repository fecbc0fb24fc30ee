//! Counts the requests of all routes by outcome. A route's counters survive reloads, even if the new configuration lacks the route.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabel as _, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Unit;

use super::durations::Durations;
use super::registrar::{ByLabel, Registrar};
use crate::outcome::{Door, RequestOutcome, StatusClass};

#[derive(Clone, Debug, Hash, PartialEq, Eq)]
struct RequestLabels {
    route: Arc<str>,
    outcome: &'static str,
    status: &'static str,
    door: Door,
}

impl EncodeLabelSet for RequestLabels {
    /// Writes the labels. Requests that the gateway forwards have no label `door`.
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), fmt::Error> {
        ("route", &*self.route).encode(encoder.encode_label())?;
        ("outcome", self.outcome).encode(encoder.encode_label())?;
        ("status", self.status).encode(encoder.encode_label())?;
        match self.door.label() {
            Some(door) => ("door", door).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

/// The counters of the requests of all routes.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    counts: Family<RequestLabels, Counter>,
    durations: ByLabel<Arc<str>, Durations>,
    request_bytes: ByLabel<Arc<str>, Counter>,
    response_bytes: ByLabel<Arc<str>, Counter>,
    // The counters of all routes and doors since start, also of routes that a reload removed. The families above have the same counters.
    routes: Mutex<ByRoute>,
}

/// The counters of one route's requests, by outcome and by class of the answer's status.
#[derive(Debug)]
pub(super) struct RouteRequests {
    route: Arc<str>,
    door: Door,
    family: Family<RequestLabels, Counter>,
    // Each counter is created at its first use, because most pairs of outcome and class never occur.
    counters: [[OnceLock<Counter>; StatusClass::ALL.len()]; RequestOutcome::ALL.len()],
    durations: Durations,
    /// The bytes of request bodies that the upstream received.
    pub(super) request_bytes: Counter,
    /// The bytes of the bodies of answers.
    pub(super) response_bytes: Counter,
}

/// The totals of requests that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    /// Requests by outcome, in the order of [`RequestOutcome::ALL`].
    pub outcomes: [u64; RequestOutcome::ALL.len()],
    /// The sum of the requests' durations, in microseconds.
    pub took: u64,
}

/// The counters of each route and door, in the order of the routes.
type ByRoute = BTreeMap<(Arc<str>, Door), Arc<RouteRequests>>;

impl RequestMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let counts = registrar.add(
            "requests",
            "Requests by route, what became of them, and the class of the answer's status",
        );
        let durations = registrar.add_with_unit(
            "request_duration",
            Unit::Seconds,
            "Time from the head of a request to the end of its answer",
        );
        let request_bytes = registrar.add_with_unit(
            "request",
            Unit::Bytes,
            "Bytes of request bodies by route, as far as the upstream got them",
        );
        let response_bytes = registrar.add_with_unit(
            "response",
            Unit::Bytes,
            "Bytes of the bodies of answers by route",
        );
        Self {
            counts,
            durations: ByLabel::new("route", durations),
            request_bytes: ByLabel::new("route", request_bytes),
            response_bytes: ByLabel::new("route", response_bytes),
            routes: Mutex::default(),
        }
    }

    /// Returns the counters of this route's requests by one door. Each call with the same arguments returns the same counters.
    pub(super) fn of(&self, route: &Arc<str>, door: Door) -> Arc<RouteRequests> {
        let mut routes = self.routes.lock();
        let requests = routes.entry((route.clone(), door));
        let requests = requests.or_insert_with(|| Arc::new(RouteRequests::new(self, route, door)));
        requests.clone()
    }

    /// Returns the requests of all routes by all doors since start. The totals never decrease.
    pub(crate) fn totals(&self) -> RequestTotals {
        sum(self.routes.lock().iter())
    }

    /// Returns the requests of a route by all doors since start. Requests before a reload are included.
    pub(crate) fn totals_of(&self, route: &Arc<str>) -> RequestTotals {
        let routes = self.routes.lock();
        let from = routes.range((route.clone(), Door::default())..);
        sum(from.take_while(|((name, _), _)| name == route))
    }
}

impl RouteRequests {
    fn new(all: &RequestMetrics, route: &Arc<str>, door: Door) -> Self {
        let requests = Self {
            route: route.clone(),
            door,
            family: all.counts.clone(),
            counters: Default::default(),
            durations: all.durations.get(route.clone()),
            request_bytes: all.request_bytes.get(route.clone()),
            response_bytes: all.response_bytes.get(route.clone()),
        };
        let usual = RequestOutcome::ALL.into_iter();
        for outcome in usual.filter(|_| door == Door::Proxy) {
            for class in outcome.usual() {
                requests.counter(outcome, *class);
            }
        }
        requests
    }

    fn counter(&self, outcome: RequestOutcome, class: StatusClass) -> &Counter {
        self.counters[outcome as usize][class as usize].get_or_init(|| {
            self.family.get_or_create_owned(&RequestLabels {
                route: self.route.clone(),
                outcome: outcome.label(),
                status: class.label(),
                door: self.door,
            })
        })
    }

    /// Counts a request that has ended.
    #[inline]
    pub(super) fn ended(&self, outcome: RequestOutcome, class: StatusClass, took: Duration) {
        self.durations.observe(took);
        self.counter(outcome, class).inc();
    }

    /// Returns the number of requests with the outcome of this number.
    fn count(&self, outcome: usize) -> u64 {
        let made = self.counters[outcome].iter().filter_map(OnceLock::get);
        made.map(|counter| counter.get()).sum()
    }
}

/// Adds up the counters of routes and doors. The doors of a route stand together.
fn sum<'r>(
    counters: impl Iterator<Item = (&'r (Arc<str>, Door), &'r Arc<RouteRequests>)>,
) -> RequestTotals {
    let (mut totals, mut last) = (RequestTotals::default(), None);
    for ((route, _), requests) in counters {
        for (outcome, sum) in totals.outcomes.iter_mut().enumerate() {
            *sum += requests.count(outcome);
        }
        // All doors of a route share one histogram of durations.
        if last != Some(route) {
            let [_, took] = requests.durations.sum();
            totals.took += took;
            last = Some(route);
        }
    }
    totals
}
