//! The facts about a request's connection that the service gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use http::HeaderValue;
use tidegate_net::peer::Peer;
use tidegate_net::tls::ClientCertificate;
use tokio::sync::watch;

use crate::settings::ListenerName;

/// The connection of a request. Clones are cheap.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    pub(crate) connection: Arc<Facts>,
    pub(crate) is_trusted: bool,
}

/// The facts that are the same for all requests of a connection.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The listener that accepted the connection.
    pub(crate) listener: ListenerName,
    /// Whether programs connected for themselves, to the listener for programs.
    pub(crate) is_of_program: bool,
    pub(crate) peer: Peer,
    /// The IP address of the peer, as text.
    pub(crate) hop: HeaderValue,
    pub(crate) is_tls: bool,
    pub(crate) certificate: Option<Arc<ClientCertificate>>,
    pub(crate) drain: watch::Receiver<bool>,
    // Whether a mistake in the configuration of the peer, a proxy, was already reported on this connection.
    pub(crate) is_reported: AtomicBool,
}

impl ConnectionInfo {
    /// Returns the peer: the other end of the connection, or the address that a PROXY protocol header of a trusted proxy names.
    pub fn peer(&self) -> Peer {
        self.connection.peer
    }

    /// Whether the connection came to the listener for programs, which connect for themselves. A reload does not change this.
    pub fn is_of_program(&self) -> bool {
        self.connection.is_of_program
    }

    /// Returns the IP address of the peer, as text.
    pub fn hop(&self) -> &HeaderValue {
        &self.connection.hop
    }

    /// Whether the peer's headers are trusted, by the configuration in force when the request began.
    pub const fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Records that a mistake in the configuration of the peer, a proxy, is reported. Returns true only on the first call for the
    /// connection.
    pub fn report_proxy(&self) -> bool {
        let is_reported = &self.connection.is_reported;
        !is_reported.load(Ordering::Relaxed) && !is_reported.swap(true, Ordering::Relaxed)
    }

    /// Whether TLS protects the connection.
    pub fn is_tls(&self) -> bool {
        self.connection.is_tls
    }

    /// Returns the certificate that the client presented and the handshake verified.
    pub fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.connection.certificate.as_ref()
    }

    /// Whether the client's certificate has expired since the handshake.
    pub fn certificate_ended(&self) -> bool {
        let end = self.certificate().and_then(|certificate| certificate.ends);
        end.is_some_and(|end| SystemTime::now() > end)
    }

    /// Returns a receiver that becomes true when the server drains.
    pub fn drain(&self) -> &watch::Receiver<bool> {
        &self.connection.drain
    }
}
