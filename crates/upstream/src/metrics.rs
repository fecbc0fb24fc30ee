//! What an upstream counts; its owner registers the counters under names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// The handles of one upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    /// Servers that take requests.
    pub healthy: Gauge,
    /// Servers that get requests and fail them in a row.
    pub failing: Gauge,
    /// Servers that failed, and are left out for a while.
    pub ejected: Gauge,
    /// Servers that failed their checks.
    pub unhealthy: Gauge,
    /// Requests that wait for a place.
    pub waiting: Gauge,
    /// Servers that were ejected, ever.
    pub ejections: Counter,
    /// Health checks: those that failed, and those that passed.
    pub checks: [Counter; 2],
    /// Requests sent once more.
    pub retries: Counter,
    /// Requests that were not, for want of budget.
    pub over_budget: Counter,
}
