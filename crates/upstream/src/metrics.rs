//! The metrics of an upstream. The caller registers them under their names.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// The metrics of one upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    /// Servers that take requests.
    pub healthy: Gauge,
    /// Servers that get requests although their last requests failed in a row.
    pub failing: Gauge,
    /// Servers that are ejected.
    pub ejected: Gauge,
    /// Servers that failed their health checks.
    pub unhealthy: Gauge,
    /// Requests that wait for a place at a server.
    pub waiting: Gauge,
    /// Ejections so far.
    pub ejections: Counter,
    /// Health checks: failed checks at index 0, passed checks at index 1.
    pub checks: [Counter; 2],
    /// Retries that were sent.
    pub retries: Counter,
    /// Retries that were not sent because the retry budget was used up.
    pub over_budget: Counter,
}
