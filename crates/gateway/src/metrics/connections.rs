//! What is counted of clients' connections.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::outcome::Unparsed;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SlowLabels {
    part: &'static str,
}

/// Connections that rest, heads on connections that are no requests, and clients that were cut off for being slow.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    resting: Gauge,
    unparsed: [Counter; Unparsed::ALL.len()],
    by_reason: Family<ReasonLabels, Counter>,
    slow: Family<SlowLabels, Counter>,
    slow_bodies: Counter,
    slow_answers: Counter,
}

impl Default for ConnectionMetrics {
    fn default() -> Self {
        let by_reason = Family::<ReasonLabels, Counter>::default();
        // There from the start, so that the first is seen as a rise.
        let unparsed = Unparsed::ALL.map(|unparsed| {
            let reason = unparsed.label();
            by_reason.get_or_create_owned(&ReasonLabels { reason })
        });
        let slow = Family::<SlowLabels, Counter>::default();
        let of = |part| slow.get_or_create_owned(&SlowLabels { part });
        Self {
            resting: Gauge::default(),
            unparsed,
            by_reason,
            slow_bodies: of("request"),
            slow_answers: of("answer"),
            slow,
        }
    }
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
        registry.register(
            "unparsed_requests",
            "Heads that the protocol refused before they were requests, by reason",
            self.by_reason.clone(),
        );
        registry.register(
            "slow_clients",
            "Clients cut off because they sent a request body, or took an answer, too slowly",
            self.slow.clone(),
        );
    }

    /// A head was refused by the protocol.
    pub(crate) fn unparsed(&self, unparsed: Unparsed) {
        self.unparsed[unparsed as usize].inc();
    }

    /// A connection rests.
    pub(crate) fn rests(&self) -> Resting {
        self.resting.inc();
        Resting(self.resting.clone())
    }

    /// Counts request bodies that were cut off.
    pub(crate) fn slow_bodies(&self) -> Counter {
        self.slow_bodies.clone()
    }

    /// Counts answers that were cut off.
    pub(crate) fn slow_answers(&self) -> Counter {
        self.slow_answers.clone()
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.dec();
    }
}
