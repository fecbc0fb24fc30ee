//! What is counted of clients' connections.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Connections that rest.
#[derive(Debug, Default)]
pub(crate) struct ConnectionMetrics {
    resting: Gauge,
}

/// A connection that rests, until this is dropped.
#[derive(Debug)]
pub(crate) struct Resting(Gauge);

impl ConnectionMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "connections_resting",
            "Connections of HTTP/1 that have been idle for two seconds or more",
            self.resting.clone(),
        );
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
