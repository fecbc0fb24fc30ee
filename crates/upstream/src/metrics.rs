//! The metrics of an upstream; its owner registers them under names.

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
    /// Ejections so far.
    pub ejections: Counter,
    /// Health checks: failed, and passed.
    pub checks: [Counter; 2],
    /// Requests sent once more.
    pub retries: Counter,
    /// Requests that were not sent once more, because the budget was used up.
    pub over_budget: Counter,
}
