//! The route to one server.

use std::time::Duration;

use super::tls::Tls;
use super::url::{Login, Target, Topology};

/// The settings of a connection: address, login, TLS and timeout.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) to: Topology,
    pub(crate) login: Login,
    pub(crate) database: Option<u8>,
    pub(crate) tls: Option<Tls>,
    /// The name in the server's certificate, if it differs from the host.
    pub(crate) tls_name: Option<String>,
    pub(crate) timeout: Duration,
    /// Whether the address comes from a node of the cluster and not from the URL.
    pub(crate) is_announced: bool,
}

impl Route {
    /// Returns the passwords that are sent on this route, to servers and sentinels.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let of_sentinels = match &self.to {
            Topology::Sentinels { login, .. } => login.password.as_deref(),
            _ => None,
        };
        let own = self.login.password.as_deref();
        own.into_iter().chain(of_sentinels)
    }

    /// Returns the route to the target of a URL.
    pub(crate) fn to(target: Target, tls: Option<Tls>, timeout: Duration) -> Self {
        Self {
            to: target.topology,
            login: target.login,
            database: target.database,
            tls,
            tls_name: None,
            timeout,
            is_announced: false,
        }
    }
}
