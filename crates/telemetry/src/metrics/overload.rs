//! What is counted of load that is shed.

use std::sync::atomic::Ordering;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use tidegate_server::{ConnectionRefusal, Overload};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// Connections that were refused or closed, and how short of memory the gateway is.
#[derive(Debug)]
pub(super) struct OverloadMetrics {
    refused: [Counter; ConnectionRefusal::ALL.len()],
    refusals: Family<ReasonLabels, Counter>,
    idle_closed: Counter,
    resident: Gauge,
    pressure: Gauge,
}

impl Default for OverloadMetrics {
    fn default() -> Self {
        let refusals = Family::<ReasonLabels, Counter>::default();
        // There from the start, so that the first refusal is seen as a rise.
        let refused = ConnectionRefusal::ALL.map(|refusal| {
            let reason = refusal.label();
            refusals.get_or_create_owned(&ReasonLabels { reason })
        });
        Self {
            refused,
            refusals,
            idle_closed: Counter::default(),
            resident: Gauge::default(),
            pressure: Gauge::default(),
        }
    }
}

impl OverloadMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "connections_refused",
            "Connections that were not taken, by the bound that they would have exceeded",
            self.refusals.clone(),
        );
        registry.register(
            "idle_connections_closed",
            "Connections without a request that were closed for want of memory",
            self.idle_closed.clone(),
        );
        registry.register_with_unit(
            "resident_memory",
            "What the process takes, as the system counts it; 0 where it does not tell",
            Unit::Bytes,
            self.resident.clone(),
        );
        registry.register(
            "memory_pressure",
            "0: nothing is shed; 1: near max_memory, new connections are refused; 2: requests are, too",
            self.pressure.clone(),
        );
    }

    /// Counts connections that were not taken, by reason.
    pub(super) fn refused(&self) -> [Counter; ConnectionRefusal::ALL.len()] {
        self.refused.clone()
    }

    /// Counts connections without a request that were closed for want of memory.
    pub(super) fn idle_closed(&self) -> Counter {
        self.idle_closed.clone()
    }

    pub(super) fn show(&self, overload: &Overload) {
        let resident = overload.resident().try_into();
        self.resident.set(resident.unwrap_or(i64::MAX));
        self.pressure
            .inner()
            .store(i64::from(overload.pressure() as u8), Ordering::Relaxed);
    }
}
