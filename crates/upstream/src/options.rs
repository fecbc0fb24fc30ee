//! The options of a request to an upstream.

use std::net::IpAddr;
use std::time::Duration;

use tidegate_net::tls::Offer;
use tidegate_net::transmission::Transmission;

use super::body::BodyState;
use super::retries::Retries;
use super::sticky::Affinity;

/// The times that an upstream may take.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// To accept a connection, with its handshake.
    pub connect: Duration,
    /// To begin its answer, and between two parts of it.
    pub answer: Duration,
}

/// The options of a request to an upstream.
#[derive(Clone, Copy, Debug)]
pub struct SendOptions<'a> {
    /// The HTTP versions that a server may choose from.
    pub offer: Offer,
    /// The times that the server may take.
    pub timeouts: Timeouts,
    /// `None`: a request is sent again only if no part of it was sent.
    pub retries: Option<&'a Retries>,
    /// The state of the request's body, if it has one.
    pub body_state: Option<&'a BodyState>,
    /// Notes whether the request was sent, if the caller needs that.
    pub transmission: Option<&'a Transmission>,
    /// Whether the server gets its own host in place of the client's.
    pub own_host: bool,
    /// The server that the request prefers.
    pub affinity: Option<Affinity>,
    /// The client's address, of IPv6 its prefix. It matters only if the upstream [is bounded](crate::Upstream::is_bounded).
    pub address: IpAddr,
}
