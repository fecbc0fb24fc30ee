//! How the servers of an upstream are, for those who look.

use std::net::SocketAddr;

use super::background::Background;

/// A server as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Its URL in the configuration.
    pub url: String,
    /// Its address.
    pub address: SocketAddr,
    /// `healthy`, `failing`, `ejected` or `unhealthy`.
    pub state: &'static str,
    /// Requests that it has.
    pub in_flight: usize,
    /// Failures without a success in between.
    pub failures: u32,
}

/// An upstream as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// Its servers, as far as their names are resolved.
    pub servers: Vec<ServerState>,
    /// Servers that were ejected, ever.
    pub ejections: u64,
    /// Requests that were sent once more.
    pub retries: u64,
}

pub(crate) fn of(background: &Background) -> UpstreamState {
    let servers = background.discovery.current();
    let servers = servers.iter().map(|server| ServerState {
        url: server.plan.to_string(),
        address: server.address,
        state: server.health.state().word(),
        in_flight: server.places.taken(),
        failures: server.health.failures(),
    });
    UpstreamState {
        servers: servers.collect(),
        ejections: background.metrics.ejections.get(),
        retries: background.metrics.retries.get(),
    }
}
