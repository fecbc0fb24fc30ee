//! Counts the verdicts and the clients of each limit. Gauges show the keys near each limit and the used share of its budget.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::registrar::{ByLabel, Registrar, set};
use super::seen_clients::SeenClients;
use super::used_shares::{self, UsedShares};

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

/// The sample of a limit at the end of ten seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitSample {
    /// The number of keys near the limit.
    pub(crate) near: usize,
    /// The used share of the budget, if all clients share one budget.
    pub(crate) used: Option<f64>,
    /// The level of a member of weight 1, if the limit is a share and may refuse members.
    pub(crate) level: Option<f64>,
    /// The estimated number of clients in the last minute.
    pub(crate) clients: u64,
    /// Verdicts since the start, by the used share of the budget.
    pub(crate) used_counts: [u64; used_shares::BUCKETS],
}

/// The clients of a limit, and the used shares of their budgets. Each request with a verdict adds to both.
#[derive(Clone, Debug)]
pub(super) struct LimitUse {
    pub(super) clients: Arc<SeenClients>,
    pub(super) used: UsedShares,
}

/// The counters of all limits, and the gauges that are set from samples.
#[derive(Debug)]
pub(crate) struct LimitMetrics {
    // The counters of `tidegate_decisions`, by limit. The family has no function that lists its counters, so they are kept here, too.
    counters: Mutex<BTreeMap<Arc<str>, Verdicts>>,
    uses: Mutex<BTreeMap<Arc<str>, LimitUse>>,
    near: ByLabel<Arc<str>, Gauge>,
    used: ByLabel<Arc<str>, Gauge<f64, AtomicU64>>,
    level: ByLabel<Arc<str>, Gauge<f64, AtomicU64>>,
    clients: ByLabel<Arc<str>, Gauge>,
    used_counts: ByLabel<Arc<str>, UsedShares>,
}

type Verdicts = BTreeMap<(&'static str, &'static str), Counter>;

impl LimitMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            counters: Mutex::default(),
            uses: Mutex::default(),
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
            level: registrar.add_family(
                "share_level",
                "limit",
                "Units that a member of weight 1 may use in a window before its share refuses it; only while less than half of the limit is left",
            ),
            clients: registrar.add_family(
                "limit_clients",
                "limit",
                "Different clients in the last minute for which the limit gave a verdict, as an estimate",
            ),
            used_counts: registrar.add_family(
                "decision_used_ratio",
                "limit",
                "Used share of the budget after each verdict, from 0 to 1",
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
        // Creates the limit's gauges together with its counters, so that `/metrics` lists the gauges before the first sample.
        self.near.get(limit.clone());
        self.clients.get(limit.clone());
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

    /// Returns the clients and the used shares of a limit. Each call with the same name returns the same counts.
    pub(super) fn use_of(&self, limit: &Arc<str>) -> LimitUse {
        let mut uses = self.uses.lock();
        let new = || LimitUse {
            clients: Arc::default(),
            used: self.used_counts.get(limit.clone()),
        };
        uses.entry(limit.clone()).or_insert_with(new).clone()
    }

    /// Samples all limits at the end of ten seconds, and sets their gauges. `in_use` has the name and the sample of each limit that routes
    /// use, without the counts of clients and verdicts. Other limits lose their gauges.
    pub(crate) fn turn<'a>(
        &self,
        in_use: impl Iterator<Item = (&'a str, LimitSample)>,
    ) -> HashMap<Arc<str>, LimitSample> {
        let in_use: HashMap<_, _> = in_use.collect();
        let uses = self.uses.lock();
        let samples = uses.iter().map(|(limit, limit_use)| {
            let sampled = in_use.get(&**limit).copied();
            let sample = LimitSample {
                clients: limit_use.clients.turn(),
                used_counts: limit_use.used.counts(),
                ..sampled.unwrap_or_default()
            };
            self.set_gauges(limit, sampled.is_some().then_some(sample));
            (limit.clone(), sample)
        });
        samples.collect()
    }

    /// Sets the gauges of a limit. `None` removes them.
    fn set_gauges(&self, limit: &Arc<str>, sample: Option<LimitSample>) {
        match sample {
            Some(sample) => {
                set(&self.near.get(limit.clone()), sample.near);
                set(&self.clients.get(limit.clone()), sample.clients);
            }
            None => {
                self.near.remove(limit.clone());
                self.clients.remove(limit.clone());
            }
        }
        let ratios = [
            (&self.used, sample.and_then(|sample| sample.used)),
            (&self.level, sample.and_then(|sample| sample.level)),
        ];
        for (gauge, value) in ratios {
            match value {
                Some(value) => {
                    gauge.get(limit.clone()).set(value);
                }
                None => gauge.remove(limit.clone()),
            }
        }
    }
}
