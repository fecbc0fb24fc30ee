//! What a service knows of a request's connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use http::HeaderValue;
use tidegate_net::headers;
use tidegate_net::peer::Peer;
use tidegate_net::tls::ClientCertificate;
use tokio::sync::watch;

/// The connection of a request. Clones are cheap.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    connection: Arc<Facts>,
    is_trusted: bool,
}

/// What is the same for all requests of a connection.
#[derive(Debug)]
pub(crate) struct Facts {
    peer: Peer,
    hop: HeaderValue,
    is_tls: bool,
    certificate: Option<Arc<ClientCertificate>>,
    drain: watch::Receiver<bool>,
    // Whether the peer was counted as an untrusted proxy.
    is_reported: AtomicBool,
}

impl Facts {
    pub(crate) fn new(
        peer: Peer,
        is_tls: bool,
        certificate: Option<ClientCertificate>,
        drain: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer,
            hop: headers::address(peer.address.ip()),
            is_tls,
            certificate: certificate.map(Arc::new),
            drain,
            is_reported: AtomicBool::new(false),
        })
    }

    /// These facts, for a request whose headers are believed if `is_trusted`.
    pub(crate) fn of_request(self: &Arc<Self>, is_trusted: bool) -> ConnectionInfo {
        ConnectionInfo {
            connection: self.clone(),
            is_trusted,
        }
    }

    pub(crate) const fn peer(&self) -> Peer {
        self.peer
    }

    pub(crate) const fn drain(&self) -> &watch::Receiver<bool> {
        &self.drain
    }
}

impl ConnectionInfo {
    /// Returns the peer of the connection, or the peer that a trusted proxy named for it.
    pub fn peer(&self) -> Peer {
        self.connection.peer
    }

    /// The IP address of the peer, as text.
    pub fn hop(&self) -> &HeaderValue {
        &self.connection.hop
    }

    /// Whether the headers of the peer are believed, by the configuration that the request met.
    pub const fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Marks a mistake of proxies as reported. Returns whether this is the first time on the connection.
    pub fn report_proxy(&self) -> bool {
        let is_reported = &self.connection.is_reported;
        !is_reported.load(Ordering::Relaxed) && !is_reported.swap(true, Ordering::Relaxed)
    }

    /// Whether TLS protects the connection.
    pub fn is_tls(&self) -> bool {
        self.connection.is_tls
    }

    /// The certificate that the client showed, and the handshake verified.
    pub fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.connection.certificate.as_ref()
    }

    /// Whether the client showed a certificate that has ended since.
    pub fn certificate_ended(&self) -> bool {
        let end = self.certificate().and_then(|certificate| certificate.ends);
        end.is_some_and(|end| SystemTime::now() > end)
    }

    /// Becomes true when the server drains.
    pub fn drain(&self) -> &watch::Receiver<bool> {
        &self.connection.drain
    }
}
