//! What is counted of reloads of the configuration.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::OutcomeLabels;

/// A limit's name; there are as many as configurations have had.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    limit: String,
}

/// Reloads, and when the plan in force was taken.
#[derive(Debug)]
pub struct ReloadMetrics {
    reloads: Family<OutcomeLabels, Counter>,
    last_taken: Gauge,
    started_anew: Family<LimitLabels, Counter>,
}

impl Default for ReloadMetrics {
    fn default() -> Self {
        let metrics = Self {
            reloads: Family::default(),
            last_taken: Gauge::default(),
            started_anew: Family::default(),
        };
        // There from the start, so that the first refusal is seen as a rise.
        for outcome in ["taken", "refused"] {
            let labels = OutcomeLabels { outcome };
            let _ = metrics.reloads.get_or_create_owned(&labels);
        }
        metrics.taken_now();
        metrics
    }
}

impl ReloadMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "config_reloads",
            "Reloads of the configuration, by whether it was taken or refused",
            self.reloads.clone(),
        );
        registry.register_with_unit(
            "config_last_success_timestamp",
            "When the configuration in force was taken, since the epoch",
            Unit::Seconds,
            self.last_taken.clone(),
        );
        registry.register(
            "limits_started_anew",
            "Reloads after which a limit had empty state, because a part of its keys changed",
            self.started_anew.clone(),
        );
    }

    /// A reload changed what the keys of this limit are made of.
    pub fn limit_started_anew(&self, limit: &str) {
        let limit = limit.to_owned();
        self.started_anew
            .get_or_create(&LimitLabels { limit })
            .inc();
    }

    /// Reloads that were refused.
    pub fn refused(&self) -> u64 {
        let outcome = "refused";
        let refused = self.reloads.get(&OutcomeLabels { outcome });
        refused.map_or(0, |refused| refused.get())
    }

    /// A reload has ended.
    pub fn ended(&self, is_taken: bool) {
        let outcome = if is_taken { "taken" } else { "refused" };
        self.reloads.get_or_create(&OutcomeLabels { outcome }).inc();
        if is_taken {
            self.taken_now();
        }
    }

    fn taken_now(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let seconds = since.map_or(0, |since| since.as_secs());
        self.last_taken.set(seconds.try_into().unwrap_or(i64::MAX));
    }
}
