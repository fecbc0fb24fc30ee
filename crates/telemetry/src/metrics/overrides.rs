//! What is counted of overrides, which operators set at run time.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::OutcomeLabels;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ActionLabels {
    action: &'static str,
}

/// How many overrides are in force, and what became of changes that this gateway was asked for.
#[derive(Debug)]
pub struct OverrideMetrics {
    in_force: Family<ActionLabels, Gauge>,
    changes: Family<OutcomeLabels, Counter>,
}

impl Default for OverrideMetrics {
    fn default() -> Self {
        let changes = Family::default();
        // There from the start, so that the first is seen as a rise.
        for outcome in ["made", "refused", "failed"] {
            let _ = changes.get_or_create_owned(&OutcomeLabels { outcome });
        }
        Self {
            in_force: Family::default(),
            changes,
        }
    }
}

impl OverrideMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "overrides",
            "Overrides in force, by what they do",
            self.in_force.clone(),
        );
        registry.register(
            "override_changes",
            "Changes of overrides that this gateway was asked for, by what became of them",
            self.changes.clone(),
        );
    }

    /// So many overrides of each action are in force.
    pub fn show(&self, in_force: impl IntoIterator<Item = (&'static str, usize)>) {
        for (action, count) in in_force {
            let gauge = self.in_force.get_or_create(&ActionLabels { action });
            gauge.set(count.try_into().unwrap_or(i64::MAX));
        }
    }

    /// So many changes were `made`, were `refused`, or have `failed`.
    pub fn changed(&self, outcome: &'static str, count: usize) {
        let counter = self.changes.get_or_create(&OutcomeLabels { outcome });
        counter.inc_by(count.try_into().unwrap_or(u64::MAX));
    }
}
