//! Metrics of reloads of the configuration.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use super::clients::epoch_ms;
use super::registrar::{ByLabel, Registrar, Words, set};

/// The number of reloads, and the time at which the configuration in force was loaded.
#[derive(Debug)]
pub struct ReloadMetrics {
    reloads: Words,
    last_taken: Gauge,
    /// The reloads after which a limit counted from zero, by limit. The counters of removed limits stay.
    started_anew: ByLabel<String, Counter>,
}

impl ReloadMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let reloads = registrar.add_family(
            "config_reloads",
            "outcome",
            "Reloads of the configuration, by whether it was taken or refused",
        );
        let metrics = Self {
            reloads: reloads.with(["taken", "refused"]),
            last_taken: registrar.add_with_unit(
                "config_last_success_timestamp",
                Unit::Seconds,
                "When the configuration in force was taken, since the epoch",
            ),
            started_anew: registrar.add_family(
                "limits_started_anew",
                "limit",
                "Reloads after which a limit had empty state, because a part of its keys changed",
            ),
        };
        metrics.taken_now();
        metrics
    }

    /// Counts a reload after which this limit counts from zero, because the parts of its key have changed.
    pub fn limit_started_anew(&self, limit: &str) {
        self.started_anew.get(limit.to_owned()).inc();
    }

    /// Returns the number of refused reloads.
    pub fn refused(&self) -> u64 {
        self.reloads.get("refused").get()
    }

    /// Counts a completed reload, which was accepted or refused.
    pub fn ended(&self, is_taken: bool) {
        if is_taken {
            self.reloads.inc("taken");
            self.taken_now();
        } else {
            self.reloads.inc("refused");
        }
    }

    fn taken_now(&self) {
        set(&self.last_taken, epoch_ms() / 1_000);
    }
}
