//! Metrics of overrides, which operators set at run time.

use prometheus_client::metrics::gauge::Gauge;

use super::registrar::{ByLabel, Registrar, Words, set};

/// The overrides in force, and the outcomes of changes that came through this gateway.
#[derive(Debug)]
pub struct OverrideMetrics {
    in_force: ByLabel<&'static str, Gauge>,
    changes: Words,
}

impl OverrideMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let in_force =
            registrar.add_family("overrides", "action", "Overrides in force, by what they do");
        let changes = registrar.add_family(
            "override_changes",
            "outcome",
            "Changes of overrides that this gateway was asked for, by what became of them",
        );
        Self {
            in_force,
            changes: changes.with(["made", "refused", "failed"]),
        }
    }

    /// Sets the number of overrides in force, by action.
    pub fn show(&self, in_force: impl IntoIterator<Item = (&'static str, usize)>) {
        for (action, count) in in_force {
            set(&self.in_force.get(action), count);
        }
    }

    /// Adds `count` changes with this outcome: `made`, `refused` or `failed`.
    pub fn changed(&self, outcome: &'static str, count: usize) {
        let counter = self.changes.get(outcome);
        counter.inc_by(count.try_into().unwrap_or(u64::MAX));
    }
}
