//! Metrics of synced limits, from the counts of the store: their synced exchanges, and the units above the limit.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;
use tidegate_store::SyncedUse;

use super::registrar::{ByLabel, Registrar, Words, set, show};

/// The metrics of synced limits.
#[derive(Debug)]
pub(super) struct SyncedMetrics {
    keys: Gauge,
    unplaced: Counter,
    exchanges: Words,
    waiting: Gauge<f64, AtomicU64>,
    overshoot: ByLabel<Arc<str>, Counter>,
    overshoot_max: ByLabel<Arc<str>, Gauge>,
}

impl SyncedMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        Self {
            keys: registrar.add("synced_keys", "Keys of synced limits that are counted here"),
            unplaced: registrar.add(
                "synced_unplaced_decisions",
                "Decisions on synced limits that Redis made for want of place here",
            ),
            exchanges: registrar.add_family(
                "synced_exchanges",
                "outcome",
                "Calls that exchanged counts, by whether that was done or failed",
            ),
            waiting: registrar.add_with_unit(
                "synced_waiting",
                Unit::Seconds,
                "How long the exchange of some key has been due",
            ),
            overshoot: registrar.add_family(
                "synced_overshoot",
                "limit",
                "Units admitted beyond a limit by all gateways, as this one saw it",
            ),
            overshoot_max: registrar.add_family(
                "synced_overshoot_max",
                "limit",
                "The most units that one key was beyond the limit",
            ),
        }
    }

    /// Copies the counts of the store into the metrics.
    pub(super) fn show(&self, usage: &SyncedUse) {
        set(&self.keys, usage.keys);
        show(&self.unplaced, usage.no_place);
        show(&self.exchanges.get("done"), usage.exchanges);
        show(&self.exchanges.get("failed"), usage.failures);
        self.waiting.set(usage.waiting.as_secs_f64());
        for overshoot in &usage.overshoots {
            let limit: Arc<str> = Arc::from(overshoot.limit.as_str());
            show(&self.overshoot.get(limit.clone()), overshoot.total);
            set(&self.overshoot_max.get(limit), overshoot.max);
        }
    }
}
