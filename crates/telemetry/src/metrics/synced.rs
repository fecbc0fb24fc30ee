//! What synced limits cost and by how much they were exceeded, as the store has counted it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use tidegate_store::SyncedUse;

use super::OutcomeLabels;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    limit: Arc<str>,
}

/// The metrics of synced limits.
#[derive(Debug, Default)]
pub(super) struct SyncedMetrics {
    keys: Gauge,
    unplaced: Counter,
    exchanges: Family<OutcomeLabels, Counter>,
    waiting: Gauge<f64, AtomicU64>,
    overshoot: Family<LimitLabels, Counter>,
    overshoot_max: Family<LimitLabels, Gauge>,
}

impl SyncedMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "synced_keys",
            "Keys of synced limits that are counted here",
            self.keys.clone(),
        );
        registry.register(
            "synced_unplaced_decisions",
            "Decisions on synced limits that Redis made for want of place here",
            self.unplaced.clone(),
        );
        registry.register(
            "synced_exchanges",
            "Calls that exchanged counts, by whether that was done or failed",
            self.exchanges.clone(),
        );
        registry.register_with_unit(
            "synced_waiting",
            "How long the exchange of some key has been due",
            Unit::Seconds,
            self.waiting.clone(),
        );
        registry.register(
            "synced_overshoot",
            "Units admitted beyond a limit by all gateways, as this one saw it",
            self.overshoot.clone(),
        );
        registry.register(
            "synced_overshoot_max",
            "The most units that one key was beyond the limit",
            self.overshoot_max.clone(),
        );
    }

    /// Shows what the store counts.
    pub(super) fn show(&self, usage: &SyncedUse) {
        let show = |counter: &Counter, count| counter.inner().store(count, Ordering::Relaxed);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.keys.set(i64::try_from(usage.keys).unwrap_or(i64::MAX));
        show(&self.unplaced, usage.no_place);
        for (outcome, count) in [("done", usage.exchanges), ("failed", usage.failures)] {
            let labels = OutcomeLabels { outcome };
            show(&self.exchanges.get_or_create(&labels), count);
        }
        self.waiting.set(usage.waiting.as_secs_f64());
        for overshoot in &usage.overshoots {
            let limit = Arc::from(overshoot.limit.as_str());
            let labels = LimitLabels { limit };
            show(&self.overshoot.get_or_create(&labels), overshoot.total);
            let max = self.overshoot_max.get_or_create(&labels);
            max.set(number(overshoot.max));
        }
    }
}
