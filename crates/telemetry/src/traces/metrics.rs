//! What is counted of traces. Its owner registers the counters under names.

use prometheus_client::metrics::counter::Counter;

/// The counters of recorded traces.
#[derive(Debug, Default)]
pub struct TraceMetrics {
    /// The collector took them.
    pub sent: Counter,
    /// It did not.
    pub failed: Counter,
    /// Spans that it refused of batches that it took.
    pub refused_spans: Counter,
    /// There was no room for them in the queue.
    pub dropped: Counter,
    /// Requests that were sampled, and not recorded because of the bound per second.
    pub beyond: Counter,
}
