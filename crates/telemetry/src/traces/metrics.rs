//! Counters of traces. Their owner registers them under names.

use prometheus_client::metrics::counter::Counter;

/// The counters of recorded traces.
#[derive(Debug, Default)]
pub struct TraceMetrics {
    /// Traces that the collector took.
    pub sent: Counter,
    /// Traces that it did not take.
    pub failed: Counter,
    /// Spans that it refused in batches that it took.
    pub refused_spans: Counter,
    /// Traces without room in the queue.
    pub dropped: Counter,
    /// Sampled requests that were not recorded because of the bound per second.
    pub beyond: Counter,
}
