//! Counts the verdicts of each limit. Gauges show the keys near each limit and the used share of its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::registrar::{ByLabel, Registrar, set};

/// The number of verdicts of one kind, by one decider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VerdictCount {
    /// `allowed`, `refused`, `would_refuse` or `undecided`.
    pub(crate) verdict: &'static str,
    /// `store`, `gateway`, `remembered` or `on_failure`.
    pub(crate) decided_by: &'static str,
    /// The number of verdicts.
    pub(crate) count: u64,
}

/// The counters of all limits, and the gauges that are set from samples.
#[derive(Debug)]
pub(crate) struct LimitMetrics {
    // The counters of `tidegate_decisions`, by limit. The family has no function that lists its counters, so they are kept here, too.
    counters: Mutex<BTreeMap<Arc<str>, Verdicts>>,
    near: ByLabel<Arc<str>, Gauge>,
    used: ByLabel<Arc<str>, Gauge<f64, AtomicU64>>,
}

type Verdicts = BTreeMap<(&'static str, &'static str), Counter>;

impl LimitMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            counters: Mutex::default(),
            near: registrar.add_family(
                "limit_near_keys",
                "limit",
                "Keys with a fifth or less left that were seen in the last minute, as far as the gateway remembers them",
            ),
            used: registrar.add_family(
                "limit_used_ratio",
                "limit",
                "How much of a limit is used that all clients share, from 0 to 1",
            ),
        }
    }

    /// Adds a counter of a limit.
    pub(super) fn add(
        &self,
        limit: &Arc<str>,
        verdict: &'static str,
        decided_by: &'static str,
        counter: &Counter,
    ) {
        // Creates the limit's gauge together with its counters, so that `/metrics` lists the gauge before the first sample.
        self.near.get(limit.clone());
        let mut counters = self.counters.lock();
        let verdicts = counters.entry(limit.clone()).or_default();
        verdicts.insert((verdict, decided_by), counter.clone());
    }

    /// Returns the verdicts of a limit since start.
    pub(crate) fn verdicts(&self, limit: &str) -> Vec<VerdictCount> {
        let counters = self.counters.lock();
        let verdicts = counters.get(limit).into_iter().flatten();
        let counts = verdicts.map(|((verdict, decided_by), counter)| VerdictCount {
            verdict,
            decided_by,
            count: counter.get(),
        });
        counts.collect()
    }

    /// Sets the gauges of all limits that routes use. For each limit, `limits` has the number of keys near the limit, and the used share if
    /// all clients share one budget. Removes the gauges of other limits.
    pub(crate) fn sampled<'a>(&self, limits: impl Iterator<Item = (&'a str, usize, Option<f64>)>) {
        let mut gone: BTreeSet<_> = self.counters.lock().keys().cloned().collect();
        for (limit, near, used) in limits {
            let limit = gone.take(limit).unwrap_or_else(|| limit.into());
            set(&self.near.get(limit.clone()), near);
            match used {
                Some(used) => {
                    self.used.get(limit).set(used);
                }
                None => self.used.remove(limit),
            }
        }
        for limit in gone {
            self.near.remove(limit.clone());
            self.used.remove(limit);
        }
    }
}
