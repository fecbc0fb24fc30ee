//! Opens ports, or takes the sockets that the parent process has opened.

use std::io;
use std::net::{self, SocketAddr};

use listenfd::ListenFd;
use tokio::net::TcpListener;

use super::start_error::StartError;
use tidegate_config::Settings;
use tidegate_server::ListenerName;

/// Returns the names of the listeners of a configuration, and the name of the listener for decisions.
pub(crate) fn listener_names(settings: &Settings) -> (Vec<ListenerName>, Option<ListenerName>) {
    let decisions = settings.decisions.as_ref().map(|it| it.listener.address);
    let addresses = settings.listen.iter().map(|listener| listener.address);
    let mut names = ListenerName::all(addresses.chain(decisions));
    let decisions = decisions.and_then(|_| names.pop());
    (names, decisions)
}

/// Sockets that were open before the process began, as systemd passes them (`LISTEN_FDS`).
///
/// The service manager keeps these sockets open as well, so the gateway cannot free their ports. If the configuration in force does not use
/// a socket, the gateway keeps the socket for a later configuration.
#[derive(Debug, Default)]
pub struct Inherited(Vec<(SocketAddr, net::TcpListener)>);

impl Inherited {
    /// Takes the sockets that this process's environment names.
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

    /// Returns an error if the address of an inherited socket is not in `named`, because the service manager expects each socket to be
    /// served.
    pub(crate) fn all_among(&self, named: &[SocketAddr]) -> Result<(), StartError> {
        let mut addresses = self.0.iter().map(|(address, _)| address);
        match addresses.find(|address| !named.contains(address)) {
            Some(address) => Err(StartError::Unnamed(*address)),
            None => Ok(()),
        }
    }

    /// Returns the inherited socket with this address, or opens a new one.
    pub(crate) async fn bind(&self, address: SocketAddr) -> Result<TcpListener, StartError> {
        let passed = self.0.iter().find(|(passed, _)| *passed == address);
        let bound = match passed {
            Some((_, socket)) => socket.try_clone().and_then(TcpListener::from_std),
            None => TcpListener::bind(address).await,
        };
        bound.map_err(|error| StartError::Bind(address, error))
    }
}
