//! Metrics of clients' connections.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use tidegate_server::{ProxyHeader, UnparsedHead, UntrustedProxies};

use super::registrar::{Registrar, Words};

/// The counts of idle connections, of request heads that could not be read as HTTP, of slow clients that were cut off, and of untrusted
/// proxies.
#[derive(Debug)]
pub struct ConnectionMetrics {
    /// The HTTP/1 connections that have been idle for two seconds or more.
    pub(super) resting: Gauge,
    unparsed: [Counter; UnparsedHead::ALL.len()],
    slow_bodies: Counter,
    /// Answers that were cut off because the client took them too slowly.
    pub(super) slow_answers: Counter,
    untrusted_proxies: Arc<UntrustedProxies>,
}

impl ConnectionMetrics {
    pub(super) fn new(registrar: &mut Registrar) -> Self {
        let resting = registrar.add(
            "connections_resting",
            "Connections of HTTP/1 that have been idle for two seconds or more",
        );
        let unparsed: Words = registrar.add_family(
            "unparsed_requests",
            "reason",
            "Heads that the protocol refused before they were requests, by reason",
        );
        let slow: Words = registrar.add_family(
            "slow_clients",
            "part",
            "Clients cut off because they sent a request body, or took an answer, too slowly",
        );
        let by_header: Words = registrar.add_family(
            "untrusted_proxy_connections",
            "header",
            "Connections of untrusted peers that send a header of proxies, or of trusted ones that send none and are limited, by header",
        );
        let by_header = ProxyHeader::ALL.map(|header| by_header.get(header.label()));
        Self {
            resting,
            unparsed: UnparsedHead::ALL.map(|head| unparsed.get(head.label())),
            slow_bodies: slow.get("request"),
            slow_answers: slow.get("answer"),
            untrusted_proxies: Arc::new(UntrustedProxies::new(by_header)),
        }
    }

    /// Counts a request head that could not be read as HTTP.
    pub fn unparsed(&self, head: UnparsedHead) {
        self.unparsed[head as usize].inc();
    }

    /// Returns the networks with untrusted proxies.
    pub const fn untrusted_proxies(&self) -> &Arc<UntrustedProxies> {
        &self.untrusted_proxies
    }

    /// Returns the counter of request bodies that were cut off because the client sent them too slowly.
    pub fn slow_bodies(&self) -> Counter {
        self.slow_bodies.clone()
    }
}
