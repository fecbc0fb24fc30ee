//! The counters of a server. The caller registers them under names.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use tidegate_net::tls::HandshakeFailure;

use crate::untrusted::UntrustedProxies;

/// The reason why a connection was not accepted.
#[derive(Clone, Copy, Debug)]
pub enum ConnectionRefusal {
    /// `max_connections` connections are open.
    Total,
    /// The address has `max_connections_per_ip` open connections.
    Address,
    /// The process is short of memory.
    Memory,
    /// The process has no free file descriptor for clients.
    Descriptors,
    /// The address has used up a limit by request heads that the HTTP parser refused.
    UsedUp,
    /// The configuration denies the address.
    Denied,
}

impl ConnectionRefusal {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 6] = [
        Self::Total,
        Self::Address,
        Self::Memory,
        Self::Descriptors,
        Self::UsedUp,
        Self::Denied,
    ];

    /// Returns the word for metrics. If a setting is the reason, the word is the setting's key in the configuration.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Total => "max_connections",
            Self::Address => "max_connections_per_ip",
            Self::Memory => "max_memory",
            Self::Descriptors => "descriptors",
            Self::UsedUp => "always",
            Self::Denied => "deny",
        }
    }
}

/// The counters and gauges of a server.
#[derive(Debug)]
pub struct ServerMetrics {
    /// Connections that were not accepted, in the order of [`ConnectionRefusal::ALL`].
    pub refused: [Counter; ConnectionRefusal::ALL.len()],
    /// Handshakes that failed, in the order of [`HandshakeFailure::ALL`].
    pub failed_handshakes: [Counter; HandshakeFailure::ALL.len()],
    /// Connections without a request that were closed because memory was short.
    pub idle_closed: Counter,
    /// HTTP/1 connections that rest now: they are idle, and keep only their socket.
    pub resting: Gauge,
    /// Answers that were cut off because the client took them too slowly.
    pub slow_answers: Counter,
    /// Networks from which untrusted proxies seem to connect.
    pub untrusted_proxies: Arc<UntrustedProxies>,
}

impl ServerMetrics {
    pub(crate) fn refused(&self, reason: ConnectionRefusal) {
        self.refused[reason as usize].inc();
    }

    /// Counts a connection as resting until the returned value is dropped.
    pub(crate) fn rest(&self) -> Resting<'_> {
        self.resting.inc();
        Resting(&self.resting)
    }
}

/// Counts one connection as resting until this value is dropped.
#[derive(Debug)]
pub(crate) struct Resting<'a>(&'a Gauge);

impl Drop for Resting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
