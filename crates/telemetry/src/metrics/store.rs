//! Metrics of the store: calls of Redis, ends of holds, and the keys of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_store::{Store, StoreCall, StoreError};

use super::durations::Durations;

/// Where the histograms of the store split, in seconds: around the usual timeout of 25 ms.
const STORE_BUCKETS: [f64; 10] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    error: &'static str,
}

/// The metrics of the store; clones are of the same.
#[derive(Clone, Debug)]
pub struct StoreMetrics {
    calls: Durations,
    errors: Family<ErrorLabels, Counter>,
    last_error: Arc<Mutex<Option<StoreError>>>,
    keys: Gauge,
    evicted: Counter,
    shared: Counter,
    settlements_waiting: Gauge,
    settlements_dropped: Counter,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let metrics = Self {
            calls: Durations::new(&STORE_BUCKETS),
            errors: Family::default(),
            last_error: Arc::default(),
            keys: Gauge::default(),
            evicted: Counter::default(),
            shared: Counter::default(),
            settlements_waiting: Gauge::default(),
            settlements_dropped: Counter::default(),
        };
        // There from the start, so that the first error is seen as a rise.
        for error in StoreError::LABELS {
            let _ = metrics.errors.get_or_create_owned(&ErrorLabels { error });
        }
        metrics
    }
}

impl StoreMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "store_duration",
            "Time that decisions waited for Redis",
            Unit::Seconds,
            self.calls.clone(),
        );
        registry.register(
            "store_errors",
            "Decisions that Redis did not give, by reason",
            self.errors.clone(),
        );
        registry.register(
            "settlements_waiting",
            "Ends of holds that Redis has not answered, and that are sent again",
            self.settlements_waiting.clone(),
        );
        registry.register(
            "settlements_dropped",
            "Ends of holds that were dropped: too many waited for Redis, or the key cannot be read",
            self.settlements_dropped.clone(),
        );
        registry.register(
            "memory_keys",
            "Keys in this process's store",
            self.keys.clone(),
        );
        registry.register(
            "memory_evicted_keys",
            "Unexpired keys that made place for others",
            self.evicted.clone(),
        );
        registry.register(
            "memory_shared_decisions",
            "Decisions on a budget shared for want of place",
            self.shared.clone(),
        );
    }

    /// Redis was asked.
    pub(super) fn called(&self, call: &StoreCall) {
        self.calls.observe(call.took);
        if let Some(error) = &call.error {
            // That Redis was not asked says nothing of why. Many fail at once, and one of them is enough.
            if *error != StoreError::NotAsked
                && let Some(mut last) = self.last_error.try_lock()
            {
                *last = Some(error.clone());
            }
            let error = error.label();
            self.errors.get_or_create(&ErrorLabels { error }).inc();
        }
    }

    /// Shows what the store itself counts.
    pub(super) fn show(&self, store: &Store) {
        let gauge = |gauge: &Gauge, count: usize| gauge.set(count.try_into().unwrap_or(i64::MAX));
        let show = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        let usage = store.memory().usage();
        gauge(&self.keys, usage.keys);
        show(&self.evicted, usage.evicted);
        show(&self.shared, usage.shared);
        let (unanswered, dropped) = store.unanswered_settlements();
        gauge(&self.settlements_waiting, unanswered);
        show(&self.settlements_dropped, dropped);
    }

    /// Calls of Redis, and how long they took together, in us.
    pub(crate) fn calls(&self) -> [u64; 2] {
        self.calls.sum()
    }

    /// Why Redis gave no decision last.
    pub(crate) fn last_error(&self) -> Option<StoreError> {
        self.last_error.lock().clone()
    }

    /// Decisions that Redis did not give.
    pub(crate) fn failures(&self) -> u64 {
        let counts = StoreError::LABELS.map(|error| {
            let counter = self.errors.get(&ErrorLabels { error });
            counter.map_or(0, |counter| counter.get())
        });
        counts.iter().sum()
    }
}
