//! Every setting of fred.
//!
//! Its defaults do not suit counting: no command timeout, three attempts (a script may run three times), ten seconds for a
//! connection.

use std::time::Duration;

use fred::types::config::{
    Config, ConnectionConfig, Options, PerformanceConfig, ReconnectError, Server, ServerConfig,
    TcpConfig, TlsConfig, TlsConnector, TlsHostMapping,
};

use super::route::Route;
use super::url::{Address, Topology};

/// The most time that a connection may take to come up.
pub const CONNECT: Duration = Duration::from_millis(500);

/// Returns the settings of one attempt to connect. Each attempt begins with another sentinel.
pub(crate) fn config(route: &Route, attempt: usize) -> Config {
    let server = |address: &Address| {
        Server::new_with_tls(address.host.clone(), address.port, route.tls_name.clone())
    };
    let server = match &route.to {
        Topology::Server(address) => ServerConfig::Centralized {
            server: server(address),
        },
        Topology::Unix(path) => ServerConfig::Unix { path: path.clone() },
        Topology::Sentinels {
            hosts,
            service,
            login,
        } => {
            // fred uses the first sentinel that it can connect to. A sentinel that hangs or is cut off is not the first next time.
            let mut hosts: Vec<Server> = hosts.iter().map(server).collect();
            let first = attempt % hosts.len().max(1);
            hosts.rotate_left(first);
            ServerConfig::Sentinel {
                hosts,
                service_name: service.clone(),
                username: login.user.clone(),
                password: login.password.clone(),
            }
        }
        // `Cluster` connects to each node by itself.
        Topology::Cluster(nodes) => ServerConfig::Centralized {
            server: nodes.first().map_or_else(|| Server::new("", 0), server),
        },
    };
    let tls = route.tls.as_ref().map(|tls| TlsConfig {
        connector: TlsConnector::Rustls(tls.0.clone().into()),
        hostnames: TlsHostMapping::None,
    });
    Config {
        server,
        username: route.login.user.clone(),
        password: route.login.password.clone(),
        database: route.database,
        tls,
        // One attempt, and its error.
        fail_fast: true,
        ..Config::default()
    }
}

/// Returns the settings of a connection that fails early.
pub(crate) fn connection() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT,
        internal_command_timeout: CONNECT,
        // A script that was sent may have run; only its caller may decide to send it again.
        max_command_attempts: 1,
        // A bound here can end fred's router for good; the store bounds what is in flight.
        max_command_buffer_len: 0,
        reconnect_on_auth_error: true,
        // A demoted or loading server is left at once, not kept until its socket breaks.
        reconnect_errors: vec![
            ReconnectError::ClusterDown,
            ReconnectError::Loading,
            ReconnectError::ReadOnly,
            ReconnectError::MasterDown,
        ],
        tcp: TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

/// Returns settings by which commands wait no longer than decisions.
pub(crate) fn performance(timeout: Duration) -> PerformanceConfig {
    PerformanceConfig {
        // fred skips commands that have timed out, if they were not yet written.
        default_command_timeout: timeout,
        ..PerformanceConfig::default()
    }
}

/// Returns the options of a command with a timeout of its own. It is written once, too.
pub(crate) fn within(patience: Duration) -> Options {
    Options {
        timeout: Some(patience),
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings on which exact counting rests.
    #[test]
    fn fred_counts_once_and_never_waits_for_ever() {
        let timeout = Duration::from_millis(25);
        let connection = connection();
        assert_eq!(connection.max_command_attempts, 1);
        assert_eq!(connection.max_command_buffer_len, 0);
        assert!(connection.connection_timeout <= Duration::from_secs(1));
        assert!(
            connection
                .reconnect_errors
                .contains(&ReconnectError::ReadOnly)
        );
        assert_eq!(performance(timeout).default_command_timeout, timeout);
    }
}
