//! What each limit said, and how much of it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    limit: Arc<str>,
}

/// How often a limit said one thing.
#[derive(Clone, Copy, Debug)]
pub struct VerdictCount {
    /// `allowed`, `refused`, `would_refuse` or `undecided`.
    pub verdict: &'static str,
    /// `store`, `gateway`, `remembered` or `on_failure`.
    pub decided_by: &'static str,
    /// How often.
    pub count: u64,
}

/// The counters of all limits, and what is sampled of them.
#[derive(Debug, Default)]
pub struct LimitMetrics {
    // Those of `tidegate_decisions`: this family alone cannot be read.
    counters: Mutex<BTreeMap<Arc<str>, Verdicts>>,
    near: Family<LimitLabels, Gauge>,
    used: Family<LimitLabels, Gauge<f64, AtomicU64>>,
}

type Verdicts = BTreeMap<(&'static str, &'static str), Counter>;

impl LimitMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "limit_near_keys",
            "Keys with a fifth or less left that were seen in the last minute, as far as the gateway remembers them",
            self.near.clone(),
        );
        registry.register(
            "limit_used_ratio",
            "How much of a limit is used that all clients share, from 0 to 1",
            self.used.clone(),
        );
    }

    /// A limit's counter.
    pub(super) fn add(
        &self,
        limit: &Arc<str>,
        verdict: &'static str,
        decided_by: &'static str,
        counter: &Counter,
    ) {
        // There from the start, as the counters are.
        let _ = self.near.get_or_create_owned(&LimitLabels {
            limit: limit.clone(),
        });
        let mut counters = self.counters.lock();
        let verdicts = counters.entry(limit.clone()).or_default();
        verdicts.insert((verdict, decided_by), counter.clone());
    }

    /// What a limit said so far.
    pub fn verdicts(&self, limit: &str) -> Vec<VerdictCount> {
        let counters = self.counters.lock();
        let verdicts = counters.get(limit).into_iter().flatten();
        let counts = verdicts.map(|((verdict, decided_by), counter)| VerdictCount {
            verdict,
            decided_by,
            count: counter.get(),
        });
        counts.collect()
    }

    /// All limits that routes use. So many keys are near each, and so much of it is used, if all clients share it. Of other limits
    /// nothing is shown.
    pub fn sampled<'a>(&self, limits: impl Iterator<Item = (&'a str, usize, Option<f64>)>) {
        let mut gone: BTreeSet<_> = self.counters.lock().keys().cloned().collect();
        for (limit, near, used) in limits {
            let limit = gone.take(limit).unwrap_or_else(|| limit.into());
            let labels = LimitLabels { limit };
            let near = near.try_into().unwrap_or(i64::MAX);
            self.near.get_or_create(&labels).set(near);
            match used {
                Some(used) => {
                    self.used.get_or_create(&labels).set(used);
                }
                None => {
                    self.used.remove(&labels);
                }
            }
        }
        for limit in gone {
            let labels = LimitLabels { limit };
            self.near.remove(&labels);
            self.used.remove(&labels);
        }
    }
}
