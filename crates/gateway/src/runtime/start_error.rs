//! Errors that prevent a gateway from starting, although its configuration is valid.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_store::redis::InvalidOptions;

/// The reason why a gateway could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("cannot listen on {}: {}", .0, not_bound(.1))]
    Bind(SocketAddr, io::Error),
    /// The process inherited a socket whose address is not in the configuration.
    #[error(
        "the service manager passes a socket on {0}, which stands neither under `listen` nor under `admin`; write \
         the address there just like this"
    )]
    Unnamed(SocketAddr),
    /// The store's URL is invalid, or uses TLS without certificate authorities.
    #[error("store: {0}")]
    Store(InvalidOptions),
    /// This machine trusts no certificate authority for the servers of key sets.
    #[error(
        "this machine trusts no authority that a key set's server could be known by: {0}; name some under `jwks_ca`"
    )]
    Authorities(io::Error),
    /// This machine trusts no authority for the collector of traces.
    #[error(
        "this machine trusts no authority that the collector of traces could be known by: {0}; install the \
         certificates of authorities, or use a collector at http://"
    )]
    Collector(io::Error),
    /// The system gives no random numbers for a secret.
    #[error("the system gives no random numbers to make a secret of")]
    Random,
    /// The file of the access log cannot be opened.
    #[error("cannot open the access log {}: {}; `log.access.file` must be a file that the gateway may write", .0.display(), .1)]
    AccessLog(PathBuf, io::Error),
    /// The file of overrides cannot be read or written.
    #[error("cannot use the file of overrides {}: {}; `overrides_file` must be a file that the gateway may write", .0.display(), .1)]
    Overrides(PathBuf, io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

impl StartError {
    /// Whether every start fails until the configuration changes. After any other error, a later start may succeed.
    pub(crate) const fn is_about_configuration(&self) -> bool {
        matches!(self, Self::Unnamed(_) | Self::Store(_))
    }
}

/// Formats the reason why an address could not be bound, with a remedy.
fn not_bound(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use; stop what uses it, or choose another".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("{error}; ports from 1024 up need no permission")
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address; 0.0.0.0 is all that it has".to_owned()
        }
        _ => error.to_string(),
    }
}
