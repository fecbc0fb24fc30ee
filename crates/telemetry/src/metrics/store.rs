//! Metrics of the store: the calls of Redis, the ends of holds, and the keys in this process.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use tidegate_store::{Store, StoreCall, StoreError};

use super::durations::Durations;
use super::registrar::{Registrar, Words, set, show};

/// Upper bounds of the buckets for calls of Redis, in seconds. The default timeout, 25 ms, is also a bound.
const STORE_BUCKETS: [f64; 10] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
];

/// The metrics of the store. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct StoreMetrics {
    calls: Durations,
    errors: Words,
    last_error: Arc<Mutex<Option<StoreError>>>,
    keys: Gauge,
    evicted: Counter,
    shared: Counter,
    settlements_waiting: Gauge,
    settlements_dropped: Counter,
}

impl StoreMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let calls = Durations::new(&STORE_BUCKETS);
        registrar.0.register_with_unit(
            "store_duration",
            "Time that decisions waited for Redis",
            Unit::Seconds,
            calls.clone(),
        );
        let errors = registrar.add_family(
            "store_errors",
            "error",
            "Decisions that Redis did not give, by reason",
        );
        Self {
            calls,
            errors: errors.with(StoreError::LABELS),
            last_error: Arc::default(),
            settlements_waiting: registrar.add(
                "settlements_waiting",
                "Ends of holds that Redis has not answered, and that are sent again",
            ),
            settlements_dropped: registrar.add(
                "settlements_dropped",
                "Ends of holds that were dropped: too many waited for Redis, or the key cannot be read",
            ),
            keys: registrar.add("memory_keys", "Keys in this process's store"),
            evicted: registrar.add(
                "memory_evicted_keys",
                "Unexpired keys that made place for others",
            ),
            shared: registrar.add(
                "memory_shared_decisions",
                "Decisions on a budget shared for want of place",
            ),
        }
    }

    /// Counts a call of Redis.
    pub(super) fn called(&self, call: &StoreCall) {
        self.calls.observe(call.took);
        if let Some(error) = &call.error {
            // Stores the error as the last error, unless the call was not sent. Many calls may fail at the same time. If another thread
            // holds the lock, this error is not stored, so no thread waits.
            if *error != StoreError::NotAsked
                && let Some(mut last) = self.last_error.try_lock()
            {
                *last = Some(error.clone());
            }
            self.errors.inc(error.label());
        }
    }

    /// Copies the counts of the store into the metrics.
    pub(super) fn show(&self, store: &Store) {
        let usage = store.memory().usage();
        set(&self.keys, usage.keys);
        show(&self.evicted, usage.evicted);
        show(&self.shared, usage.shared);
        let (unanswered, dropped) = store.unanswered_settlements();
        set(&self.settlements_waiting, unanswered);
        show(&self.settlements_dropped, dropped);
    }

    /// Returns the number of calls of Redis, and the sum of their durations in microseconds.
    pub(crate) fn calls(&self) -> [u64; 2] {
        self.calls.sum()
    }

    /// Returns the last error of Redis.
    pub(crate) fn last_error(&self) -> Option<StoreError> {
        self.last_error.lock().clone()
    }

    /// Returns the number of calls that returned no decision.
    pub(crate) fn failures(&self) -> u64 {
        let counters = StoreError::LABELS.map(|error| self.errors.get(error));
        counters.iter().map(Counter::get).sum()
    }
}
