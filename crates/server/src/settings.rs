//! The settings of client connections. The gateway creates the settings from its configuration file. A reload replaces the settings
//! together with the service.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidegate_net::pace::LeastRate;
use tidegate_net::tls::ServerTls;

/// The settings that apply to all client connections.
#[derive(Debug)]
pub struct ConnectionSettings {
    /// The listeners that are open, each with its TLS.
    pub listeners: Vec<(ListenerName, Option<Arc<ServerTls>>)>,
    /// The most connections that may be open at once.
    pub max_connections: usize,
    /// The most open connections of one IPv4 address or one /64 network of IPv6. The bound does not apply to trusted proxies. `None` if
    /// connections per address have no bound.
    pub max_connections_per_ip: Option<usize>,
    /// Whether trusted proxies begin a connection with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// The listener whose connections never begin with a PROXY protocol header, because programs connect to it for themselves.
    pub programs: Option<ListenerName>,
    /// The time limits for clients.
    pub timeouts: Timeouts,
    /// The longest time that the server waits for its connections to close after a stop. `None` if the server waits without a bound.
    pub drain: Option<Duration>,
}

/// The time limits for a client. A reload changes the timeouts of new connections only.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The longest time in which a client sends the head of a request. For the first request, the time includes the bytes before the head,
    /// such as the TLS handshake.
    pub header: Duration,
    /// The longest time between two requests of a connection.
    pub idle: Duration,
    /// The least rate at which the client must take an answer that the gateway itself generates. `None` if any rate is allowed.
    pub slow: Option<LeastRate>,
}

/// The name of a listener, which stays the same across reloads. It consists of the address and an index among the listeners with this
/// address. The index is needed because several listeners may have the same address with port 0 (any free port).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerName {
    /// The address as written in the configuration.
    pub address: SocketAddr,
    nth: usize,
}

impl ListenerName {
    /// Returns the names of the listeners at these addresses, in their order.
    pub fn all(addresses: impl IntoIterator<Item = SocketAddr>) -> Vec<Self> {
        let mut names: Vec<Self> = Vec::new();
        for address in addresses {
            let nth = names.iter().filter(|name| name.address == address).count();
            names.push(Self { address, nth });
        }
        names
    }
}

impl ConnectionSettings {
    /// Whether trusted proxies begin a connection to this listener with a PROXY protocol header.
    pub(crate) fn expects_proxy_header(&self, name: ListenerName) -> bool {
        self.proxy_protocol && self.programs != Some(name)
    }

    /// Returns the TLS settings of a listener: `Some(None)` if the listener has no TLS, and `None` if the listener is closed.
    pub fn protection(&self, name: ListenerName) -> Option<Option<Arc<ServerTls>>> {
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|(other, _)| *other == name);
        listener.map(|(_, tls)| tls.clone())
    }
}
