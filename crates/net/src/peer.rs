//! The other end of a connection.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether the header of the PROXY protocol named this address, and not the connection itself.
    pub is_named: bool,
}

impl Peer {
    /// The peer of requests from an unknown address.
    pub const UNKNOWN: Self =
        Self::connected(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));

    /// Returns a peer by the address of its connection.
    pub const fn connected(address: SocketAddr) -> Self {
        let is_named = false;
        Self { address, is_named }
    }

    /// Returns a peer that the header of the PROXY protocol names.
    pub const fn named(address: SocketAddr) -> Self {
        let is_named = true;
        Self { address, is_named }
    }
}
