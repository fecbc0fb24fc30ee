//! Metrics of overload: connections that were refused or closed, and the memory of the process.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use tidegate_server::{ConnectionRefusal, Overload};

use super::registrar::{Registrar, Words, set};

/// Connections that were refused or closed, and the memory of the process.
#[derive(Debug)]
pub(super) struct OverloadMetrics {
    /// Refused connections, by reason.
    pub(super) refused: [Counter; ConnectionRefusal::ALL.len()],
    /// Connections without a request that were closed to free memory.
    pub(super) idle_closed: Counter,
    resident: Gauge,
    pressure: Gauge,
}

impl OverloadMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let refused: Words = registrar.add_family(
            "connections_refused",
            "reason",
            "Connections that were not taken, by the bound that they would have exceeded",
        );
        Self {
            refused: ConnectionRefusal::ALL.map(|refusal| refused.get(refusal.label())),
            idle_closed: registrar.add(
                "idle_connections_closed",
                "Connections without a request that were closed for want of memory",
            ),
            resident: registrar.add_with_unit(
                "resident_memory",
                Unit::Bytes,
                "What the process takes, as the system counts it; 0 where it does not tell",
            ),
            pressure: registrar.add(
                "memory_pressure",
                "0: nothing is shed; 1: near max_memory, new connections are refused; 2: requests are, too",
            ),
        }
    }

    pub(super) fn show(&self, overload: &Overload) {
        set(&self.resident, overload.resident());
        set(&self.pressure, overload.pressure() as u8);
    }
}
