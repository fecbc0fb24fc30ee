//! The other end of a connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address of the peer.
    pub address: SocketAddr,
    /// Whether the address comes from the PROXY protocol and not from the connection itself.
    pub is_named: bool,
}

impl Peer {
    /// The peer of requests from an unknown address.
    pub const UNKNOWN: Self =
        Self::connected(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

    /// Returns the peer at the address of a connection.
    pub const fn connected(address: SocketAddr) -> Self {
        let is_named = false;
        Self { address, is_named }
    }

    /// Returns the peer at an address from the PROXY protocol.
    pub const fn named(address: SocketAddr) -> Self {
        let is_named = true;
        Self { address, is_named }
    }
}
