//! Ports: handed over open by whoever started the process, or else opened here.

use std::io;
use std::net::{self, SocketAddr};

use listenfd::ListenFd;
use tokio::net::TcpListener;

use super::start_error::StartError;

/// Sockets that were open before the process began, as systemd passes them (`LISTEN_FDS`).
///
/// They are the service manager's as well, so one that no plan names is kept for a later one.
#[derive(Debug, Default)]
pub struct Inherited(Vec<(SocketAddr, net::TcpListener)>);

impl Inherited {
    /// Takes those of this process's environment; fails if one is no TCP socket.
    ///
    /// # Errors
    ///
    /// A passed socket is not a TCP socket.
    pub fn take() -> io::Result<Self> {
        let mut passed = ListenFd::from_env();
        let mut sockets = Vec::new();
        for index in 0..passed.len() {
            if let Some(socket) = passed.take_tcp_listener(index)? {
                socket.set_nonblocking(true)?;
                sockets.push((socket.local_addr()?, socket));
            }
        }
        Ok(Self(sockets))
    }

    /// Refuses a socket that is for none of these addresses: whoever passed it thinks that it is served.
    pub(crate) fn all_among(&self, named: &[SocketAddr]) -> Result<(), StartError> {
        let mut addresses = self.0.iter().map(|(address, _)| address);
        match addresses.find(|address| !named.contains(address)) {
            Some(address) => Err(StartError::Unnamed(*address)),
            None => Ok(()),
        }
    }

    /// The socket at this address.
    pub(crate) async fn bind(&self, address: SocketAddr) -> Result<TcpListener, StartError> {
        let passed = self.0.iter().find(|(passed, _)| *passed == address);
        let bound = match passed {
            Some((_, socket)) => socket.try_clone().and_then(TcpListener::from_std),
            None => TcpListener::bind(address).await,
        };
        bound.map_err(|error| StartError::Bind(address, error))
    }
}
