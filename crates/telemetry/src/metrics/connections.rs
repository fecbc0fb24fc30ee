//! What is counted of clients' connections.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use tidegate_server::{ProxyHeader, UnparsedHead, UntrustedProxies};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SlowLabels {
    part: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HeaderLabels {
    header: &'static str,
}

/// Connections that rest, heads on connections that are no requests, and clients that were cut off for being slow.
#[derive(Debug)]
pub struct ConnectionMetrics {
    resting: Gauge,
    unparsed: [Counter; UnparsedHead::ALL.len()],
    by_reason: Family<ReasonLabels, Counter>,
    slow: Family<SlowLabels, Counter>,
    slow_bodies: Counter,
    slow_answers: Counter,
    by_header: Family<HeaderLabels, Counter>,
    untrusted_proxies: Arc<UntrustedProxies>,
}

impl Default for ConnectionMetrics {
    fn default() -> Self {
        let by_reason = Family::<ReasonLabels, Counter>::default();
        // There from the start, so that the first is seen as a rise.
        let unparsed = UnparsedHead::ALL.map(|head| {
            let reason = head.label();
            by_reason.get_or_create_owned(&ReasonLabels { reason })
        });
        let by_header = Family::<HeaderLabels, Counter>::default();
        let untrusted_proxies = UntrustedProxies::new(ProxyHeader::ALL.map(|header| {
            let header = header.label();
            by_header.get_or_create_owned(&HeaderLabels { header })
        }));
        let slow = Family::<SlowLabels, Counter>::default();
        let of = |part| slow.get_or_create_owned(&SlowLabels { part });
        Self {
            resting: Gauge::default(),
            unparsed,
            by_reason,
            slow_bodies: of("request"),
            slow_answers: of("answer"),
            slow,
            by_header,
            untrusted_proxies: Arc::new(untrusted_proxies),
        }
    }
}

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
        registry.register(
            "untrusted_proxy_connections",
            "Connections of untrusted peers that send a header of proxies, or of trusted ones that send none and are limited, by header",
            self.by_header.clone(),
        );
    }

    /// A head was refused by the protocol.
    pub fn unparsed(&self, head: UnparsedHead) {
        self.unparsed[head as usize].inc();
    }

    /// Returns the networks from which untrusted proxies seem to connect.
    pub const fn untrusted_proxies(&self) -> &Arc<UntrustedProxies> {
        &self.untrusted_proxies
    }

    /// Connections that rest.
    pub(super) fn resting(&self) -> Gauge {
        self.resting.clone()
    }

    /// Counts request bodies that were cut off.
    pub fn slow_bodies(&self) -> Counter {
        self.slow_bodies.clone()
    }

    /// Counts answers that were cut off.
    pub(super) fn slow_answers(&self) -> Counter {
        self.slow_answers.clone()
    }
}
