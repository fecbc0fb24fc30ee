//! What is counted of clients' connections.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Connections that were refused, and those that rest.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    refused: Counter,
    resting: Gauge,
}

/// A connection that rests, until this is dropped.
#[derive(Debug)]
pub(crate) struct Resting(Gauge);

impl ConnectionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "connections_refused",
            "Connections closed because max_connections were open",
            self.refused.clone(),
        );
        registry.register(
            "connections_resting",
            "Connections of HTTP/1 that have been idle for two seconds or more",
            self.resting.clone(),
        );
    }

    /// A connection was closed because there were too many.
    pub(crate) fn refused(&self) {
        self.refused.inc();
    }

    /// A connection rests.
    pub(crate) fn rests(&self) -> Resting {
        self.resting.inc();
        Resting(self.resting.clone())
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.dec();
    }
}
