//! Counters over time.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_status::document::RequestCounts;
use tidegate_status::{Series, Tracks};
use tidegate_store::Limit;

use super::View;
use super::events::Events;
use crate::metrics::{GatewayMetrics, RequestTotals};
use crate::outcome::RequestOutcome;

/// In which the time of requests is sampled, in us: a second has room for what 100 requests of an hour took.
const TOOK_UNIT: u64 = 100;

/// Of requests: all, refused, failed, and how long they took, in [`TOOK_UNIT`].
pub(super) type RequestSeries = Series<4>;
/// Of a limit: allowed, refused, would have been refused, undecided.
pub(super) type LimitSeries = Series<4>;

/// The used share from which on a limit counts as near.
const NEAR: f64 = 0.8;

/// What was sampled so far.
#[derive(Debug)]
pub(super) struct Sampled {
    pub(super) tick: u64,
    pub(super) requests: RequestSeries,
    pub(super) routes: Tracks<Arc<str>, 4>,
    pub(super) limits: Tracks<Arc<str>, 4>,
    /// Calls of the store, how long they took in us, and decisions that it did not give.
    pub(super) store: Series<3>,
    pub(super) events: Events,
    /// Keys near each limit, and how much of it is used if it is shared.
    pub(super) near: HashMap<Arc<str>, usize>,
    pub(super) used: HashMap<String, f64>,
}

impl Sampled {
    pub(super) fn new(view: &View<'_>) -> Self {
        Self {
            tick: 0,
            requests: Series::new(total(view.metrics)),
            routes: Tracks::default(),
            limits: Tracks::default(),
            store: Series::new(store(view.metrics)),
            events: Events::new(view),
            near: HashMap::new(),
            used: HashMap::new(),
        }
    }

    /// Takes the counters at the end of a second.
    pub(super) fn second(&mut self, view: &View<'_>) -> u64 {
        self.requests.sample(total(view.metrics));
        let routes = view.routes.iter();
        self.routes
            .sample(routes.map(|route| (route.name.clone(), counts(&route.metrics.requests()))));
        let names = view.limits().map(Limit::name);
        self.limits
            .sample(names.map(|name| (Arc::from(name), verdicts(view.metrics, name))));
        self.store.sample(store(view.metrics));
        let calls = [0, 2].map(|counter| self.store.lately(counter, 1));
        self.events.look(view, calls);
        self.tick += 1;
        self.tick
    }

    /// Takes what is known every ten seconds.
    pub(super) fn turn(&mut self, view: &View<'_>, used: HashMap<String, f64>) {
        let metrics = view.metrics;
        self.near.clear();
        for near in metrics.clients().hitters.nearest() {
            if let Some(limit) = metrics.clients().limit(near.nearness.limit) {
                *self.near.entry(limit).or_default() += 1;
            }
        }
        for (limit, used) in &used {
            // All clients have one key.
            if *used >= NEAR {
                self.near.insert(limit.as_str().into(), 1);
            }
        }
        self.used = used;
        let near = |name| self.near.get(name).copied().unwrap_or_default();
        let names = view.limits().map(Limit::name);
        metrics
            .limits
            .sampled(names.map(|name| (name, near(name), self.used.get(name).copied())));
    }
}

fn counts(totals: &RequestTotals) -> [u64; 4] {
    let of = |these: &[RequestOutcome]| these.iter().map(|it| totals.outcomes[*it as usize]).sum();
    [
        of(&RequestOutcome::ALL),
        of(&[RequestOutcome::Limited, RequestOutcome::Dropped]),
        of(&[
            RequestOutcome::Unavailable,
            RequestOutcome::Shed,
            RequestOutcome::Failed,
        ]),
        totals.took / TOOK_UNIT,
    ]
}

fn total(metrics: &GatewayMetrics) -> [u64; 4] {
    counts(&metrics.requests.totals())
}

fn verdicts(metrics: &GatewayMetrics, limit: &str) -> [u64; 4] {
    let verdicts = metrics.limits.verdicts(limit);
    ["allowed", "refused", "would_refuse", "undecided"].map(|verdict| {
        let counts = verdicts.iter().filter(|it| it.verdict == verdict);
        counts.map(|it| it.count).sum()
    })
}

fn store(metrics: &GatewayMetrics) -> [u64; 3] {
    let [calls, took] = metrics.store.calls();
    [calls, took, metrics.store.failures()]
}

/// Requests of the last seconds.
pub(super) fn lately(series: &RequestSeries, seconds: usize) -> RequestCounts {
    let all = series.lately(0, seconds);
    RequestCounts {
        all,
        refused: series.lately(1, seconds),
        failed: series.lately(2, seconds),
        mean_ms: mean_ms(all, series.lately(3, seconds) * TOOK_UNIT),
    }
}

/// The mean of so many that took so many us together, in ms.
pub(super) fn mean_ms(count: u64, micros: u64) -> f64 {
    let hundredths = micros / 10 / count.max(1);
    hundredths as f64 / 100.0
}
