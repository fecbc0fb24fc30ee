//! Counters of traces. The caller registers them under names.

use prometheus_client::metrics::counter::Counter;

/// The counters of recorded traces.
#[derive(Debug, Default)]
pub struct TraceMetrics {
    /// Traces that the collector accepted.
    pub sent: Counter,
    /// Traces that the collector did not accept.
    pub failed: Counter,
    /// Spans that the collector refused in accepted batches.
    pub refused_spans: Counter,
    /// Traces that were dropped because the queue was full.
    pub dropped: Counter,
    /// Sampled requests that were not recorded because of `max_per_second`.
    pub beyond: Counter,
}
