//! The options of a request to an upstream.

use std::net::IpAddr;
use std::time::Duration;

use tidegate_net::tls::Offer;
use tidegate_net::transmission::Transmission;

use super::body::BodyState;
use super::retries::Retries;
use super::sticky::Affinity;

/// The timeouts of a request to an upstream.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The longest time until a connection is open and its handshake is complete.
    pub connect: Duration,
    /// The longest time until the answer begins, and between two parts of the answer.
    pub answer: Duration,
}

/// The options of a request to an upstream.
#[derive(Clone, Copy, Debug)]
pub struct SendOptions<'a> {
    /// The HTTP versions that a server may choose from.
    pub offer: Offer,
    /// The timeouts of the connection and the answer.
    pub timeouts: Timeouts,
    /// The route's retries. Without them, only the first three cases of [`Upstream::send`](crate::Upstream::send) repeat a request.
    pub retries: Option<&'a Retries>,
    /// The state of the request's body, if it has one.
    pub body_state: Option<&'a BodyState>,
    /// Records whether the request was sent. `None` if the caller does not need this record.
    pub transmission: Option<&'a Transmission>,
    /// Whether the request's host is replaced by the server's own host.
    pub own_host: bool,
    /// The server that the request prefers.
    pub affinity: Option<Affinity>,
    /// The client's IPv4 address, or the prefix of its IPv6 address. It is used only if the upstream [is
    /// bounded](crate::Upstream::is_bounded).
    pub address: IpAddr,
}
