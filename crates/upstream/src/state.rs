//! The current state of an upstream's servers, for reports.

use std::net::SocketAddr;

use super::background::Background;

/// The current state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// The server's URL in the configuration.
    pub url: String,
    /// The server's IP address and port.
    pub address: SocketAddr,
    /// `healthy`, `failing`, `ejected` or `unhealthy`.
    pub state: &'static str,
    /// The number of requests in flight at the server.
    pub in_flight: usize,
    /// The number of failures without a success in between.
    pub failures: u32,
}

/// The current state of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// The upstream's servers. A server whose name is not resolved yet is missing.
    pub servers: Vec<ServerState>,
    /// Ejections so far.
    pub ejections: u64,
    /// Retries so far.
    pub retries: u64,
}

pub(crate) fn of(background: &Background) -> UpstreamState {
    let servers = background.discovery.current();
    let states = servers.iter().map(|server| ServerState {
        url: server.settings.to_string(),
        address: server.address,
        state: server.health.state().word(),
        in_flight: server.places.taken(),
        failures: server.health.failures(),
    });
    UpstreamState {
        servers: states.collect(),
        ejections: background.metrics.ejections.get(),
        retries: background.metrics.retries.get(),
    }
}
