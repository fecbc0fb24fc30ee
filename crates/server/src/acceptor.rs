//! The connections of one listener: each is accepted if it fits the limits, and served from its first byte to its last.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate_net::descriptors;
use tidegate_net::peer::Peer;
use tidegate_net::tls::HandshakeFailure;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::activity::Activity;
use crate::client_stream::ClientStream;
use crate::connection::Connection;
use crate::connection_info::Facts;
use crate::connection_limit::{Bounds, ConnectionLimit, ConnectionPermit, LimitReached};
use crate::drain::{last_call, last_call_memory, stop_asked};
use crate::handshake::{Handshake, HandshakeError, HandshakeLimit};
use crate::metrics::{ConnectionRefusal, ServerMetrics};
use crate::offenders::Offenders;
use crate::overload::{Overload, Pressure};
use crate::refusal;
use crate::service::Service;
use crate::settings::ListenerName;

/// How long to wait when the system has no file descriptor left for another connection.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Accepts and serves the connections of one listener.
pub(crate) struct Acceptor<S> {
    pub(crate) service: Arc<ArcSwap<S>>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) overload: Arc<Overload>,
    /// The bytes that a connection without TLS gets that is not accepted.
    pub(crate) refusal: Arc<[u8]>,
    pub(crate) listener: ListenerName,
    pub(crate) pressure: watch::Receiver<Pressure>,
    /// Becomes true when requests in flight are the last.
    pub(crate) drain: watch::Receiver<bool>,
    /// Addresses from which nothing is read for a moment.
    pub(crate) offenders: Arc<Offenders>,
    pub(crate) connections: Arc<ConnectionLimit>,
    pub(crate) handshakes: Arc<ConnectionLimit>,
}

impl<S: Service> Acceptor<S> {
    /// Accepts connections until a stop is asked for.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let mut drain = self.drain.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop_asked(&mut drain) => return,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Errors of the connection that was to be accepted concern its client alone.
                    if !is_clients(&error) {
                        tracing::warn!(%error, "cannot accept connections");
                        tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    }
                    continue;
                }
            };
            if self.offenders.contain(peer.ip()) {
                self.metrics.refused(ConnectionRefusal::UsedUp);
                continue;
            }
            let permit = match self.permit(peer.ip()) {
                Ok(permit) => permit,
                Err(reason) => {
                    self.metrics.refused(reason);
                    // A client that speaks TLS would not understand.
                    let service = self.service.load();
                    if let Some(None) = service.settings().protection(self.listener) {
                        refusal::send(socket, &self.refusal);
                    }
                    continue;
                }
            };
            // Answers are small and written whole: waiting to fill a packet only delays them.
            let _ = socket.set_nodelay(true);
            let peer = Peer::connected(peer);
            // Handshakes are made in the new task, too, so that none delays the next connection.
            tokio::spawn(self.clone().serve(socket, peer, Arc::new(permit)));
        }
    }

    /// A permit for a connection from this address, if it may have one. A denied address has none where TLS is spoken.
    fn permit(&self, ip: IpAddr) -> Result<ConnectionPermit, ConnectionRefusal> {
        if self.overload.pressure() != Pressure::None {
            return Err(ConnectionRefusal::Memory);
        }
        let service = self.service.load();
        let settings = service.settings();
        // Without TLS the client is told why, by the answer to its request.
        if is_denied(&**service, ip) && matches!(settings.protection(self.listener), Some(Some(_)))
        {
            return Err(ConnectionRefusal::Denied);
        }
        let fits = descriptors::shares().clients;
        let bounds = Bounds {
            total: settings.max_connections.min(fits),
            // A proxy speaks for many clients.
            of_ip: settings
                .max_connections_per_ip
                .filter(|_| !service.is_proxy(ip))
                .map(|most| (ip, most)),
        };
        self.connections
            .take(bounds)
            .map_err(|reached| match reached {
                LimitReached::Total if fits < settings.max_connections => {
                    ConnectionRefusal::Descriptors
                }
                LimitReached::Total => ConnectionRefusal::Total,
                LimitReached::Address => ConnectionRefusal::Address,
            })
    }

    /// Serves a connection until it ends, or, once the server drains, until its requests are done.
    async fn serve(self: Arc<Self>, socket: TcpStream, peer: Peer, permit: Arc<ConnectionPermit>) {
        // The requests of the connection end with it, or before.
        let _permit = permit.clone();
        // Timeouts and TLS are those of the beginning; each request asks anew for the service.
        let service = self.service.load_full();
        let settings = service.settings();
        let Some(tls) = settings.protection(self.listener) else {
            // The listener was closed since, so nothing says how to speak here.
            return;
        };
        let timeouts = settings.timeouts;
        let activity = Activity::new(timeouts.header, timeouts.idle);
        let stream = ClientStream::new(socket, activity.clone(), permit);
        // The first bytes say who the peer is and what is spoken. They have a deadline.
        let expects_header = settings.proxy_protocol && service.is_proxy(peer.address.ip());
        let limit = HandshakeLimit {
            begun: &self.handshakes,
            is_proxy: |ip| service.is_proxy(ip),
            is_denied: |ip| is_denied(&*service, ip),
        };
        let untrusted = &self.metrics.untrusted_proxies;
        let tls_settings = tls.as_deref();
        let handshake =
            Handshake::read(stream, peer, expects_header, tls_settings, limit, untrusted);
        let (mut drain, mut pressure) = (self.drain.clone(), self.pressure.clone());
        let ended = tokio::select! {
            biased;
            ended = timeout(timeouts.header, handshake) => ended,
            // A connection that has asked nothing yet is as good as idle.
            () = last_call(&mut drain) => return,
            () = last_call_memory(&mut pressure) => {
                self.metrics.idle_closed.inc();
                return;
            }
        };
        let failure = match ended {
            Ok(Ok(handshake)) if self.offenders.contain(handshake.peer.address.ip()) => {
                self.metrics.refused(ConnectionRefusal::UsedUp);
                return;
            }
            Ok(Ok(handshake)) => {
                // Parts of a configuration that is replaced would live on with this connection.
                drop((service, tls));
                let connection = Connection {
                    facts: Facts::new(
                        handshake.peer,
                        handshake.stream.is_tls(),
                        handshake.certificate,
                        drain,
                    ),
                    service: self.service.clone(),
                    metrics: self.metrics.clone(),
                    activity,
                    idle: timeouts.idle,
                    slow: timeouts.slow,
                    pressure,
                    offenders: self.offenders.clone(),
                };
                drop(self);
                let connection = Arc::new(connection);
                return connection.serve(handshake.stream, handshake.is_http2).await;
            }
            Ok(Err(HandshakeError::Denied)) => {
                self.metrics.refused(ConnectionRefusal::Denied);
                return;
            }
            Ok(Err(HandshakeError::Gone)) => None,
            Ok(Err(HandshakeError::Failed(failure))) => Some(failure),
            Err(_) => tls.as_ref().map(|_| HandshakeFailure::Timeout),
        };
        if let Some(failure) = failure {
            self.metrics.handshake_failed(failure);
            tracing::debug!(peer = %peer.address, reason = failure.label(), "a TLS handshake failed");
        }
    }
}

/// Whether a client that connects from `ip` is denied. A proxy connects for others.
fn is_denied(service: &impl Service, ip: IpAddr) -> bool {
    service.denies(ip) && !service.is_proxy(ip)
}

fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
