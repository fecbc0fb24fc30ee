//! What is counted of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::OutcomeLabels;
use crate::traces::TraceMetrics;

/// Recorded traces, by what became of them.
#[derive(Debug, Default)]
pub(super) struct TraceFamilies(Family<OutcomeLabels, Counter>);

impl TraceFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "traces",
            "Recorded traces, by whether the collector took them",
            self.0.clone(),
        );
    }

    /// The handles.
    pub(super) fn handles(&self) -> TraceMetrics {
        let counter = |outcome| self.0.get_or_create_owned(&OutcomeLabels { outcome });
        TraceMetrics {
            sent: counter("sent"),
            failed: counter("failed"),
            dropped: counter("dropped"),
        }
    }
}
