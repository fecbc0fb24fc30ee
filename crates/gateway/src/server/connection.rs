//! One client connection, from its first byte to its last.

use std::sync::Arc;

use tidegate_tower::Peer;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::conversation::{Conversation, LAST_CALL, last_call, near};
use super::offenders::Offenders;
use super::opening::{Handshakes, Opening, Unopened};
use super::places::{Place, Places};
use super::stream::ClientStream;
use crate::activity::Activity;
use crate::in_force::{Current, ListenerName};
use crate::metrics::Refused;
use crate::overload::Pressure;
use crate::proxy::address;
use tidegate_net::tls::HandshakeFailure;

/// What serves the connections of one listener.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    pub(super) current: Arc<Current>,
    pub(super) listener: ListenerName,
    pub(super) pressure: watch::Receiver<Pressure>,
    /// Becomes true when requests in flight are the last.
    pub(super) drain: watch::Receiver<bool>,
    /// From whom nothing is read for a moment.
    pub(super) offenders: Arc<Offenders>,
    /// Handshakes that are not ended.
    pub(super) handshakes: Arc<Places>,
}

impl Serving {
    /// Serves a connection until it ends, or, once it drains, until its requests are done.
    pub(super) async fn serve(mut self, socket: TcpStream, peer: Peer, place: Arc<Place>) {
        // Its requests end with the connection, or before.
        let _place = place.clone();
        // What is told of a connection holds until it ends; its requests each ask anew what is in force.
        let in_force = self.current.load_full();
        let Some(tls) = in_force.protection(self.listener) else {
            // Closed since, and nobody says any more how to speak here.
            return;
        };
        let timeouts = in_force.frontend.timeouts();
        let activity = Activity::new(timeouts.header, timeouts.idle);
        let stream = ClientStream::new(socket, activity.clone(), timeouts.idle, place);
        // The first bytes tell who is there and what is spoken; a client may not send them for ever.
        let is_told = in_force.frontend.is_told_by(peer);
        let handshakes = Handshakes {
            begun: &self.handshakes,
            trusted: &in_force.frontend.clients.trusted,
        };
        let opening = Opening::read(stream, peer, is_told, tls.as_deref(), handshakes);
        let opened = tokio::select! {
            biased;
            opened = timeout(timeouts.header, opening) => opened,
            // A connection that has asked nothing yet is as good as idle.
            () = last_call(&mut self.drain) => return,
            () = last_call_near(&mut self.pressure) => {
                in_force.frontend.metrics().overload().idle_closed();
                return;
            }
        };
        let failure = match opened {
            Ok(Ok(opening)) if self.offenders.contain(opening.peer.address.ip()) => {
                let metrics = in_force.frontend.metrics();
                metrics.overload().refused(Refused::UsedUp);
                return;
            }
            Ok(Ok(opening)) => {
                // Parts of a plan that is no longer in force would live on with this connection.
                drop((in_force, tls));
                let conversation = Conversation {
                    peer: opening.peer,
                    hop: address(opening.peer.address.ip()),
                    is_tls: opening.stream.is_tls(),
                    certificate_ends: opening.certificate_ends,
                    current: self.current,
                    activity,
                    idle: timeouts.idle,
                    pressure: self.pressure,
                    drain: self.drain,
                    heads: Arc::default(),
                    offenders: self.offenders,
                };
                return Arc::new(conversation).hold(opening).await;
            }
            Ok(Err(Unopened::Gone)) => None,
            Ok(Err(Unopened::Handshake(failure))) => Some(failure),
            Err(_) => tls.as_ref().map(|_| HandshakeFailure::Timeout),
        };
        if let Some(failure) = failure {
            in_force.frontend.metrics().tls().handshake_failed(failure);
            tracing::debug!(peer = %peer.address, reason = failure.label(), "a TLS handshake failed");
        }
    }
}

/// Ready a moment after the process became short of memory.
async fn last_call_near(pressure: &mut watch::Receiver<Pressure>) {
    near(pressure).await;
    tokio::time::sleep(LAST_CALL).await;
}
