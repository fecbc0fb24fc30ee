//! The settings of an upstream: its servers, the choice among them, and the rules that take a server out of use.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Method, StatusCode};

use super::sticky::Sticky;
use tidegate_net::tls::UpstreamTls;

/// A group of servers, each of which can take any request.
#[derive(Debug, PartialEq)]
pub struct UpstreamSettings {
    /// The upstream's name in the configuration, or the URL of its only server.
    pub name: Arc<str>,
    /// The upstream's servers, at least one.
    pub servers: Vec<ServerSettings>,
    /// The rule that chooses the server of the next request.
    pub balance: Balance,
    /// The rule by which a request prefers a server (sticky sessions). `None` if requests prefer no server.
    pub sticky: Option<Sticky>,
    /// The pause between two DNS lookups of the servers' names.
    pub resolve_every: Duration,
    /// The rule that ejects failing servers. `None` if servers are never ejected.
    pub eject: Option<EjectSettings>,
    /// The health checks of servers. `None` without checks.
    pub health: Option<HealthSettings>,
    /// The time in which a returning server reaches its full share of requests. `None` if it has its full share at once.
    pub slow_start: Option<Duration>,
    /// The most connections to one server that are in use at a time. `None` if they have no bound.
    pub max_connections: Option<usize>,
    /// The part of the connections that one client address may hold.
    pub max_connections_per_ip: Share,
    /// The most requests that wait for a connection.
    pub max_waiting: usize,
    /// The time for which an idle connection is kept.
    pub idle: Duration,
}

impl UpstreamSettings {
    /// The default of `resolve_every`. The period is fixed, because the system's resolver does not return the lifetime (TTL) of a DNS
    /// answer.
    pub const RESOLVE_EVERY: Duration = Duration::from_secs(30);

    /// The default of `idle`. It is shorter than the usual keep-alive of servers, so that no request is sent on a connection that the
    /// server is closing.
    pub const IDLE: Duration = Duration::from_secs(30);

    /// Returns an upstream of one server, for a server without an entry under `upstreams`.
    pub fn alone(server: ServerSettings) -> Self {
        Self {
            name: server.to_string().into(),
            servers: vec![server],
            balance: Balance::default(),
            sticky: None,
            resolve_every: Self::RESOLVE_EVERY,
            eject: Some(EjectSettings::default()),
            health: None,
            slow_start: None,
            max_connections: None,
            max_connections_per_ip: Share::default(),
            max_waiting: 0,
            idle: Self::IDLE,
        }
    }

    /// Returns the rule that chooses servers, as YAML text.
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
    /// Whether an address that holds `own` connections may have one more connection while `free` connections are free.
    ///
    /// The fewer connections are free, the fewer an address may hold. With 75 %, a single busy address gets three quarters of all
    /// connections. Two busy addresses get three sevenths each, and one seventh remains free.
    pub const fn allows(self, own: usize, free: usize) -> bool {
        let share = self.0 as usize;
        own.saturating_mul(100_usize.saturating_sub(share)) < free.saturating_mul(share)
    }

    /// Whether a single address leaves some of `all` connections to others.
    pub const fn leaves_some(self, all: usize) -> bool {
        !self.allows(all.saturating_sub(1), 1)
    }
}

impl Default for Share {
    fn default() -> Self {
        Self(75)
    }
}

/// A server of an upstream: one IP address, or all IP addresses of a host name.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSettings {
    /// The host and the port in the server's URL.
    pub authority: Authority,
    /// The protocol of its connections.
    pub speaks: Speaks,
    /// The weight of the server, from 1 to 1000. Each server gets requests in proportion to its weight.
    pub weight: u32,
}

impl ServerSettings {
    /// Returns the server's host, without the brackets of an IPv6 address, and its port.
    pub fn endpoint(&self) -> (&str, u16) {
        let host = self.authority.host().trim_matches(['[', ']']);
        let usual_port = match self.speaks {
            Speaks::Tls(_) => 443,
            Speaks::Http1 | Speaks::Http2 => 80,
        };
        (host, self.authority.port_u16().unwrap_or(usual_port))
    }

    /// Returns the server's address; `None` if its host is a name that must be looked up.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let (host, port) = self.endpoint();
        Some(SocketAddr::new(host.parse().ok()?, port))
    }
}

/// The protocol of the connections to a server.
#[derive(Debug, Clone)]
pub enum Speaks {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/1.1 or HTTP/2 over TLS. The handshake negotiates the version.
    Tls(Arc<UpstreamTls>),
}

impl PartialEq for Speaks {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http1, Self::Http1) | (Self::Http2, Self::Http2) => true,
            // The contents of certificates cannot be compared, so two TLS settings are equal only if they are the same object.
            (Self::Tls(one), Self::Tls(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Display for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.speaks {
            Speaks::Http1 => "http",
            Speaks::Http2 => "h2c",
            Speaks::Tls(_) => "https",
        };
        write!(f, "{scheme}://{}", self.authority)
    }
}

/// The rule that chooses the server of the next request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Balance {
    /// Each server in turn, by weight.
    #[default]
    RoundRobin,
    /// The server with the fewest open requests relative to its weight.
    LeastRequests,
}

/// The rule that ejects failing servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EjectSettings {
    /// The number of failures without a success in between that ejects a server.
    pub after: u32,
    /// The statuses that count as failures, as ranges with both ends included.
    pub statuses: Vec<(u16, u16)>,
    /// The length of the first ejection. The length doubles with each further ejection in a row.
    pub lasts: Duration,
    /// The most servers that may be out of use (ejected or unhealthy) after an ejection, in percent. One ejected server is always allowed,
    /// unless no server would be left.
    pub at_most: u32,
}

impl EjectSettings {
    /// Whether an answer with this status counts as a failure.
    pub(crate) fn counts(&self, status: StatusCode) -> bool {
        let status = status.as_u16();
        let mut ranges = self.statuses.iter();
        ranges.any(|(from, to)| (*from..=*to).contains(&status))
    }
}

impl Default for EjectSettings {
    fn default() -> Self {
        Self {
            after: 5,
            // Errors with other statuses are caused by the request as often as by the server, so they do not count.
            statuses: vec![(502, 504)],
            lasts: Duration::from_secs(10),
            at_most: 50,
        }
    }
}

/// The health check of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    /// The request of a check.
    pub request: HealthRequest,
    /// The port of the check. `None` for the port of requests.
    pub port: Option<u16>,
    /// The `Host` header of the check's request. `None` for the host of the server.
    pub host: Option<HeaderValue>,
    /// The pause between two checks.
    pub every: Duration,
    /// The longest time of a check, including the time for a new connection.
    pub timeout: Duration,
    /// The number of good answers in a row that return a server to use.
    pub healthy_after: u32,
    /// The number of bad answers in a row that take a server out of use.
    pub unhealthy_after: u32,
}

/// The request of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthRequest {
    /// An HTTP request. An answer with a status from 200 to 399 is good.
    Http {
        /// GET or HEAD.
        method: Method,
        /// The path, with a query if need be.
        path: PathAndQuery,
    },
    /// A call of `grpc.health.v1.Health/Check`. The answer `SERVING` is good.
    Grpc {
        /// The name of the gRPC service that is checked. Empty for the server as a whole.
        service: Box<str>,
    },
}

/// The rule for retries of a request that a server may already have processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetrySettings {
    /// The most retries of one request.
    pub attempts: u32,
    /// The longest time that each attempt but the last waits for an answer. `None` for all of the remaining time.
    pub timeout: Option<Duration>,
    /// The most retries, in percent of the route's requests.
    pub budget: u32,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn server(authority: &str) -> ServerSettings {
        ServerSettings {
            authority: authority.parse().unwrap(),
            speaks: Speaks::Http1,
            weight: 1,
        }
    }
}
