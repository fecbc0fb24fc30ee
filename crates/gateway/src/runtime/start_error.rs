//! What may keep a gateway from starting, once its configuration is right.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tidegate_store::redis::InvalidOptions;

/// Why a gateway could not be made.
#[derive(Debug)]
pub enum StartError {
    /// An address cannot be bound.
    Bind(SocketAddr, io::Error),
    /// A socket was passed to the process that is for no address of the configuration.
    Unnamed(SocketAddr),
    /// The store's URL is none, or there is nobody to trust.
    Store(InvalidOptions),
    /// There is nothing to know the servers of key sets by.
    Authorities(io::Error),
    /// There is nothing to know the collector of traces by.
    Collector(io::Error),
    /// The system gives no random numbers, of which a secret is made.
    Random,
    /// The file of the access log cannot be opened.
    AccessLog(PathBuf, io::Error),
    /// The file of overrides cannot be read or written.
    Overrides(PathBuf, io::Error),
    /// A thread could not be started.
    Thread(io::Error),
}

impl StartError {
    /// Whether the configuration must be changed first. A start that fails for another reason may succeed later.
    pub(crate) const fn is_about_configuration(&self) -> bool {
        matches!(self, Self::Unnamed(_) | Self::Store(_))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(address, error) if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "cannot listen on {address}: the port is in use; stop what uses it, or choose another"
            ),
            Self::Bind(address, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "cannot listen on {address}: {error}; ports from 1024 up need no permission"
                )
            }
            Self::Bind(address, error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                write!(
                    f,
                    "cannot listen on {address}: this machine has no such address; 0.0.0.0 is all that it has"
                )
            }
            Self::Bind(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Unnamed(address) => write!(
                f,
                "the service manager passes a socket on {address}, which stands neither under `listen` nor under `admin`; write \
                 the address there just like this"
            ),
            Self::Store(error) => write!(f, "store: {error}"),
            Self::Authorities(error) => write!(
                f,
                "this machine trusts no authority that a key set's server could be known by: {error}; name some under `jwks_ca`"
            ),
            Self::Collector(error) => write!(
                f,
                "this machine trusts no authority that the collector of traces could be known by: {error}; install the \
                 certificates of authorities, or use a collector at http://"
            ),
            Self::Random => f.write_str("the system gives no random numbers to make a secret of"),
            Self::AccessLog(path, error) => write!(
                f,
                "cannot open the access log {}: {error}; `log.access.file` must be a file that the gateway may write",
                path.display()
            ),
            Self::Overrides(path, error) => write!(
                f,
                "cannot use the file of overrides {}: {error}; `overrides_file` must be a file that the gateway may write",
                path.display()
            ),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}
