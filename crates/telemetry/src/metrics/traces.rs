//! What is counted of traces.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::OutcomeLabels;
use crate::traces::TraceMetrics;

/// Recorded traces by outcome, and the spans that the collector refused.
#[derive(Debug, Default)]
pub(super) struct TraceFamilies {
    traces: Family<OutcomeLabels, Counter>,
    refused_spans: Counter,
}

impl TraceFamilies {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "traces",
            "Sampled traces, by whether they were recorded and the collector took them",
            self.traces.clone(),
        );
        registry.register(
            "refused_spans",
            "Spans that the collector refused of batches that it took",
            self.refused_spans.clone(),
        );
    }

    /// The handles.
    pub(super) fn handles(&self) -> TraceMetrics {
        let counter = |outcome| self.traces.get_or_create_owned(&OutcomeLabels { outcome });
        TraceMetrics {
            sent: counter("sent"),
            failed: counter("failed"),
            refused_spans: self.refused_spans.clone(),
            dropped: counter("dropped"),
            beyond: counter("over_bound"),
        }
    }
}
