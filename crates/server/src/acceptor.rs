//! Accepts the connections of one listener within the bounds on connections, and serves each connection from its first byte to its last.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tidegate_net::peer::Peer;
use tidegate_net::tls::HandshakeFailure;
use tidegate_net::{descriptors, headers};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::activity::Activity;
use crate::client_stream::ClientStream;
use crate::common::Common;
use crate::connection::Connection;
use crate::connection_info::Facts;
use crate::connection_limit::{Bounds, ConnectionPermit, LimitReached};
use crate::drain::{last_call, memory_short, stop_asked};
use crate::handshake::{Handshake, HandshakeError};
use crate::metrics::ConnectionRefusal;
use crate::overload::Pressure;
use crate::refusal;
use crate::service::Service;
use crate::settings::ListenerName;

/// The most TLS handshakes that one client address may have open at a time. A browser, or a company behind one address, needs fewer.
const MAX_HANDSHAKES: usize = 256;
/// The pause before the next accept after an error that affects all clients, such as a shortage of file descriptors.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Accepts and serves the connections of one listener.
pub(crate) struct Acceptor<S> {
    pub(crate) common: Arc<Common<S>>,
    pub(crate) listener: ListenerName,
}

impl<S: Service> Acceptor<S> {
    /// Accepts connections until a stop is requested.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener) {
        let common = &*self.common;
        let mut drain = common.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop_asked(&mut drain) => return,
            };
            let (socket, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // An error of one new connection affects only its client. Any other error affects all clients, so it is logged.
                    if !is_clients(&error) {
                        tracing::warn!(%error, "cannot accept connections");
                        tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    }
                    continue;
                }
            };
            if common.offenders.contain(peer.ip()) {
                common.metrics.refused(ConnectionRefusal::UsedUp);
                continue;
            }
            let permit = match self.permit(peer.ip()) {
                Ok(permit) => permit,
                Err(reason) => {
                    common.metrics.refused(reason);
                    // The refusal is sent only on a listener without TLS: a client that speaks TLS cannot read the answer.
                    let service = common.service.load();
                    if let Some(None) = service.settings().protection(self.listener) {
                        refusal::send(socket, &common.refusal);
                    }
                    continue;
                }
            };
            // Sends each write at once (`TCP_NODELAY`). Answers are written as a whole, so a wait for more bytes would only delay them.
            let _ = socket.set_nodelay(true);
            let peer = Peer::connected(peer);
            // The handshake runs in the new task, so that it does not delay the next connection.
            tokio::spawn(self.clone().serve(socket, peer, Arc::new(permit)));
        }
    }

    /// Returns a permit for a connection from this address, if the bounds allow it. On a listener with TLS, a denied address gets no
    /// permit.
    fn permit(&self, ip: IpAddr) -> Result<ConnectionPermit, ConnectionRefusal> {
        if self.common.overload.pressure() != Pressure::None {
            return Err(ConnectionRefusal::Memory);
        }
        let service = self.common.service.load();
        let settings = service.settings();
        // A listener without TLS accepts the connection of a denied client, because the answer to the client's request gives the reason.
        if is_denied(&**service, ip) && matches!(settings.protection(self.listener), Some(Some(_)))
        {
            return Err(ConnectionRefusal::Denied);
        }
        let fits = descriptors::shares().clients;
        let bounds = Bounds {
            total: settings.max_connections.min(fits),
            // A trusted proxy connects for many clients, so `max_connections_per_ip` does not apply to its address.
            of_ip: settings
                .max_connections_per_ip
                .filter(|_| !service.is_proxy(ip))
                .map(|most| (ip, most)),
        };
        let permit = self.common.connections.take(bounds);
        permit.map_err(|reached| match reached {
            LimitReached::Total if fits < settings.max_connections => {
                ConnectionRefusal::Descriptors
            }
            LimitReached::Total => ConnectionRefusal::Total,
            LimitReached::Address => ConnectionRefusal::Address,
        })
    }

    /// Returns a permit for one handshake. Handshakes are bounded, because each costs a signature or waits for its client.
    fn begin_handshake(&self, service: &S, peer: Peer) -> Result<ConnectionPermit, HandshakeError> {
        let ip = peer.address.ip();
        // Checks only a client that a PROXY protocol header names. The address of the connection itself was checked at the accept.
        if peer.is_named && is_denied(service, ip) {
            return Err(HandshakeError::Denied);
        }
        let bounds = Bounds {
            total: usize::MAX,
            of_ip: (!service.is_proxy(ip)).then_some((ip, MAX_HANDSHAKES)),
        };
        let permit = self.common.handshakes.take(bounds);
        permit.map_err(|_| HandshakeError::Failed(HandshakeFailure::TooMany))
    }

    /// Serves a connection until it ends. After a stop, the connection ends when its requests are answered.
    async fn serve(self: Arc<Self>, socket: TcpStream, peer: Peer, permit: Arc<ConnectionPermit>) {
        // Keeps the permit until all requests of the connection have ended.
        let _permit = permit.clone();
        // The timeouts and the TLS settings stay the same for the connection. Each request loads the current service.
        let common = &*self.common;
        let service = common.service.load_full();
        let settings = service.settings();
        let Some(tls) = settings.protection(self.listener) else {
            // A reload has removed the listener, so there are no settings for this connection.
            return;
        };
        let timeouts = settings.timeouts;
        let is_of_program = settings.programs == Some(self.listener);
        let activity = Activity::new(timeouts.header, timeouts.idle);
        let stream = ClientStream::new(socket, activity.clone(), permit);
        // The first bytes show the peer (PROXY protocol) and the HTTP version. They must come within the header timeout.
        let expects_header =
            settings.expects_proxy_header(self.listener) && service.is_proxy(peer.address.ip());
        let begin = |peer| self.begin_handshake(&service, peer);
        let untrusted = &common.metrics.untrusted_proxies;
        let tls_settings = tls.as_deref();
        let handshake =
            Handshake::read(stream, peer, expects_header, tls_settings, begin, untrusted);
        let (mut drain, mut pressure) = (common.stop.clone(), common.overload.watch());
        let ended = tokio::select! {
            biased;
            ended = timeout(timeouts.header, handshake) => ended,
            // A connection without a request counts as idle, so a stop or a shortage of memory closes it.
            () = last_call(stop_asked(&mut drain)) => return,
            () = last_call(memory_short(&mut pressure)) => {
                common.metrics.idle_closed.inc();
                return;
            }
        };
        let failure = match ended {
            Ok(Ok(handshake)) if common.offenders.contain(handshake.peer.address.ip()) => {
                common.metrics.refused(ConnectionRefusal::UsedUp);
                return;
            }
            Ok(Ok(handshake)) => {
                // Drops the references to the service. Otherwise a service that a reload replaces would stay in memory until this
                // connection ends.
                drop((service, tls));
                let connection = Connection {
                    facts: Arc::new(Facts {
                        listener: self.listener,
                        is_of_program,
                        peer: handshake.peer,
                        hop: headers::address(handshake.peer.address.ip()),
                        is_tls: handshake.stream.is_tls(),
                        certificate: handshake.certificate.map(Arc::new),
                        drain,
                        is_reported: AtomicBool::new(false),
                    }),
                    common: self.common.clone(),
                    activity,
                    timeouts,
                };
                drop(self);
                let connection = Arc::new(connection);
                return connection.serve(handshake.stream, handshake.is_http2).await;
            }
            Ok(Err(HandshakeError::Denied)) => {
                common.metrics.refused(ConnectionRefusal::Denied);
                return;
            }
            Ok(Err(HandshakeError::Gone)) => None,
            Ok(Err(HandshakeError::Failed(failure))) => Some(failure),
            Err(_) => tls.as_ref().map(|_| HandshakeFailure::Timeout),
        };
        if let Some(failure) = failure {
            common.metrics.failed_handshakes[failure as usize].inc();
            tracing::debug!(peer = %peer.address, reason = failure.label(), "a TLS handshake failed");
        }
    }
}

/// Whether a client at `ip` is denied. A trusted proxy is not denied, because it connects for other clients.
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
