//! The settings of an upstream: its servers, which of them takes a request, and when one takes none.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Method, StatusCode};

use super::sticky::Sticky;
use tidegate_net::tls::UpstreamTls;

/// Servers of which any can take a request.
#[derive(Debug, PartialEq)]
pub struct UpstreamPlan {
    /// Its name in the file, or the URL of its one server.
    pub name: Arc<str>,
    /// At least one.
    pub servers: Vec<ServerPlan>,
    /// Who of them takes the next request.
    pub balance: Balance,
    /// The server that a request prefers; none: any.
    pub sticky: Option<Sticky>,
    /// How often the names of servers are resolved.
    pub resolve_every: Duration,
    /// When a server that fails is left out; none: never.
    pub eject: Option<EjectPlan>,
    /// How servers are asked whether they are well; none: not.
    pub health: Option<HealthPlan>,
    /// How long a server that comes back takes to get its full share; none: it gets that at once.
    pub slow_start: Option<Duration>,
    /// The most connections in use to one server; none: as many as it takes.
    pub max_connections: Option<usize>,
    /// The part of these that one client address may hold.
    pub max_connections_per_ip: Share,
    /// The most requests that wait for one of these.
    pub max_waiting: usize,
    /// The time for which an idle connection is kept.
    pub idle: Duration,
}

impl UpstreamPlan {
    /// How often names are resolved if nothing is said: the system's resolver does not tell for how long an answer holds.
    pub const RESOLVE_EVERY: Duration = Duration::from_secs(30);

    /// The default of `idle`. This is shorter than the usual keep-alive of servers, which may close a connection at the very moment
    /// that a request is sent on it.
    pub const IDLE: Duration = Duration::from_secs(30);

    /// One server that no entry under `upstreams` describes.
    pub fn alone(server: ServerPlan) -> Self {
        Self {
            name: server.to_string().into(),
            servers: vec![server],
            balance: Balance::default(),
            sticky: None,
            resolve_every: Self::RESOLVE_EVERY,
            eject: Some(EjectPlan::default()),
            health: None,
            slow_start: None,
            max_connections: None,
            max_connections_per_ip: Share::default(),
            max_waiting: 0,
            idle: Self::IDLE,
        }
    }

    /// Returns the choice of servers as it is written in YAML.
    pub fn balance_text(&self) -> String {
        match (&self.sticky, self.balance) {
            (Some(sticky), _) => format!("{{ {sticky} }}"),
            (None, Balance::RoundRobin) => "round_robin".to_owned(),
            (None, Balance::LeastRequests) => "least_requests".to_owned(),
        }
    }
}

/// The part of an upstream's connections that one client address may hold, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(pub u32);

impl Share {
    /// Whether an address that has this many may have one more while this many are free.
    ///
    /// The bound shrinks with the free places. With 75 %, one address alone gets three quarters. Two get three sevenths each, and a
    /// seventh stays free.
    pub const fn allows(self, own: usize, free: usize) -> bool {
        let share = self.0 as usize;
        own.saturating_mul(100_usize.saturating_sub(share)) < free.saturating_mul(share)
    }

    /// Whether one address alone leaves some of this many to others.
    pub const fn leaves_some(self, all: usize) -> bool {
        !self.allows(all.saturating_sub(1), 1)
    }
}

impl Default for Share {
    fn default() -> Self {
        Self(75)
    }
}

/// A server of an upstream: one address, or all those of a name.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerPlan {
    /// Where it is.
    pub authority: Authority,
    /// What is spoken to it.
    pub speaks: Speaks,
    /// How many requests it takes beside the others' own numbers, from 1 to 1000.
    pub weight: u32,
}

impl ServerPlan {
    /// Its host, without brackets, and its port.
    pub fn endpoint(&self) -> (&str, u16) {
        let host = self.authority.host().trim_matches(['[', ']']);
        let usual_port = match self.speaks {
            Speaks::Tls(_) => 443,
            Speaks::Http1 | Speaks::Http2 => 80,
        };
        (host, self.authority.port_u16().unwrap_or(usual_port))
    }

    /// Its address, unless its host is a name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let (host, port) = self.endpoint();
        Some(SocketAddr::new(host.parse().ok()?, port))
    }
}

/// What is spoken to a server.
#[derive(Debug, Clone)]
pub enum Speaks {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// Either of them, over TLS.
    Tls(Arc<UpstreamTls>),
}

impl PartialEq for Speaks {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http1, Self::Http1) | (Self::Http2, Self::Http2) => true,
            // What is in certificates that were read anew cannot be told.
            (Self::Tls(one), Self::Tls(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Display for ServerPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.speaks {
            Speaks::Http1 => "http",
            Speaks::Http2 => "h2c",
            Speaks::Tls(_) => "https",
        };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// Who takes the next request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Balance {
    /// Each in turn, by weight.
    #[default]
    RoundRobin,
    /// Whoever has the fewest open requests for its weight.
    LeastRequests,
}

/// When a server that fails is left out, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EjectPlan {
    /// So many failures without a success in between.
    pub after: u32,
    /// The statuses that count as failures, as ranges with both ends included.
    pub statuses: Vec<(u16, u16)>,
    /// The first time; each further time in a row twice as long as the one before.
    pub lasts: Duration,
    /// The most servers that may be out, in percent of all; never all of them.
    pub at_most: u32,
}

impl EjectPlan {
    /// Whether an answer with this status counts as a failure.
    pub(crate) fn counts(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        let mut ranges = self.statuses.iter();
        ranges.any(|(from, to)| (*from..=*to).contains(&status))
    }
}

impl Default for EjectPlan {
    fn default() -> Self {
        Self {
            after: 5,
            // Other errors are of the request as often as of the server.
            statuses: vec![(502, 504)],
            lasts: Duration::from_secs(10),
            at_most: 50,
        }
    }
}

/// How a server is asked whether it is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthPlan {
    /// The request of a check.
    pub request: HealthRequest,
    /// The port of the check; none: the port of requests.
    pub port: Option<u16>,
    /// The host of the request; none: the host of the server.
    pub host: Option<HeaderValue>,
    /// How often.
    pub every: Duration,
    /// How long the answer may take, with the connection.
    pub timeout: Duration,
    /// So many good answers in a row bring a server back.
    pub healthy_after: u32,
    /// So many bad answers in a row take it out.
    pub unhealthy_after: u32,
}

/// The request of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthRequest {
    /// An answer with 200 to 399 is good.
    Http {
        /// GET or HEAD.
        method: Method,
        /// The path, with a query if need be.
        path: PathAndQuery,
    },
    /// A call of `grpc.health.v1.Health/Check`. The answer `SERVING` is good.
    Grpc {
        /// The name of a service; empty: the server as a whole.
        service: Box<str>,
    },
}

/// When a request is sent to another server although one may have begun with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlan {
    /// How often, at most.
    pub attempts: u32,
    /// How long each attempt but the last may wait for an answer; none: as long as there is time.
    pub timeout: Option<Duration>,
    /// The most retries, in percent of the route's requests.
    pub budget: u32,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn server(authority: &str) -> ServerPlan {
        ServerPlan {
            authority: authority.parse().unwrap(),
            speaks: Speaks::Http1,
            weight: 1,
        }
    }
}
