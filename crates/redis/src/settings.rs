//! All settings of fred.
//!
//! fred's defaults do not suit counting. The defaults are: no command timeout, three attempts for a command (so a script may charge three
//! times), and ten seconds to connect.

use std::time::Duration;

use fred::types::config::{
    Config, ConnectionConfig, Options, PerformanceConfig, ReconnectError, Server, ServerConfig,
    TcpConfig, TlsConfig, TlsConnector, TlsHostMapping,
};

use super::route::Route;
use super::url::{Address, Topology};

/// The longest time that a connection may take to come up.
pub const CONNECT: Duration = Duration::from_millis(500);

/// Returns the settings of one attempt to connect. Each attempt begins with another sentinel.
pub(crate) fn config(route: &Route, attempt: usize) -> Config {
    let server_at = |address: &Address| {
        Server::new_with_tls(address.host.clone(), address.port, route.tls_name.clone())
    };
    let server = match &route.to {
        Topology::Server(address) => ServerConfig::Centralized {
            server: server_at(address),
        },
        Topology::Unix(path) => ServerConfig::Unix { path: path.clone() },
        Topology::Sentinels {
            hosts,
            service,
            login,
        } => {
            // fred uses the first sentinel that accepts a connection. The rotation lets the next attempt avoid a sentinel that hangs or is
            // cut off.
            let mut hosts: Vec<Server> = hosts.iter().map(server_at).collect();
            let first = attempt % hosts.len().max(1);
            hosts.rotate_left(first);
            ServerConfig::Sentinel {
                hosts,
                service_name: service.clone(),
                username: login.user.clone(),
                password: login.password.clone(),
            }
        }
        // `Cluster` connects to each node with its own route, so this case is not used.
        Topology::Cluster(nodes) => ServerConfig::Centralized {
            server: nodes.first().map_or_else(|| Server::new("", 0), server_at),
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
        // With `fail_fast`, fred makes one attempt to connect and returns its error.
        fail_fast: true,
        ..Config::default()
    }
}

/// Returns settings with which a broken connection fails soon.
pub(crate) fn connection() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: CONNECT,
        internal_command_timeout: CONNECT,
        // A script that was sent may have run, so only the caller may send it again.
        max_command_attempts: 1,
        // 0 means no bound: a full buffer could end fred's router task permanently. `InFlightLimit` bounds the calls.
        max_command_buffer_len: 0,
        reconnect_on_auth_error: true,
        // fred closes the connection to a demoted or loading server at once, not only when its socket breaks.
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

/// Returns settings with the timeout of decisions for all commands.
pub(crate) fn performance(timeout: Duration) -> PerformanceConfig {
    PerformanceConfig {
        // fred drops a command that times out before it is written.
        default_command_timeout: timeout,
        ..PerformanceConfig::default()
    }
}

/// Returns the options of a command with its own timeout.
pub(crate) fn within(patience: Duration) -> Options {
    Options {
        timeout: Some(patience),
        ..Options::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the settings that exact counting depends on.
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
