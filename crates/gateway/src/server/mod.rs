//! The listeners: accept, bound, protect, serve, drain.
//!
//! The caller binds, so that a port in use is found before anything starts, and says when to stop. Listeners may come and
//! go meanwhile; what is served is whatever is in force.

mod client_io;
mod connection;
mod conversation;
mod drive;
mod heads;
mod http2;
mod offenders;
mod opening;
mod places;
mod refusal;
mod stream;
mod unparsed;
mod unsent;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_tower::Peer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::in_force::{Current, InForce, ListenerName};
use crate::metrics::Refused;
use crate::overload::Pressure;
use connection::Serving;
use offenders::Offenders;
use places::{Bounds, NoPlace, Place, Places};
use tidegate_net::descriptors;

/// How long requests in flight may take to end after a stop was asked for.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// How long to wait when the system has no file descriptor left for another connection.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// An open port.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) name: ListenerName,
    pub(crate) socket: TcpListener,
}

/// All listeners and their connections.
#[derive(Debug)]
pub(crate) struct Server {
    current: Arc<Current>,
    places: Arc<Places>,
    handshakes: Arc<Places>,
    offenders: Arc<Offenders>,
    stop: watch::Receiver<bool>,
    accepting: Mutex<Vec<(ListenerName, JoinHandle<()>)>>,
}

impl Server {
    /// A server of whatever is in force, until `stop` becomes true.
    pub(crate) fn new(current: Arc<Current>, stop: watch::Receiver<bool>) -> Self {
        Self {
            current,
            places: Arc::default(),
            handshakes: Arc::default(),
            offenders: Arc::default(),
            stop,
            accepting: Mutex::default(),
        }
    }

    /// Accepts connections from now on.
    pub(crate) fn listen(&self, listener: Listener) {
        let Listener { name, socket } = listener;
        unsent::bound(&socket);
        let serving = Serving {
            current: self.current.clone(),
            listener: name,
            pressure: self.current.load().frontend.overload.watch(),
            drain: self.stop.clone(),
            offenders: self.offenders.clone(),
            handshakes: self.handshakes.clone(),
        };
        let accepting = accept(socket, serving, self.places.clone(), self.stop.clone());
        let accepting = tokio::spawn(accepting);
        self.accepting.lock().push((name, accepting));
    }

    /// Closes all listeners but these; connections that were accepted stay.
    pub(crate) fn leave_all_but(&self, names: &[ListenerName]) {
        self.accepting.lock().retain(|(name, accepting)| {
            let stays = names.contains(name);
            if !stays {
                accepting.abort();
            }
            stays
        });
    }

    /// Ready when a stop was asked for and all requests in flight are answered, or [`DRAIN`] has passed.
    pub(crate) async fn ended(&self) {
        let _ = self.stop.clone().wait_for(|stop| *stop).await;
        let accepting = std::mem::take(&mut *self.accepting.lock());
        for (_, accepting) in accepting {
            let _ = accepting.await;
        }
        let done = tokio::time::timeout(DRAIN, self.places.all_back()).await;
        if done.is_err() {
            let open = self.places.taken();
            tracing::warn!(open, "connections were still open at the drain's deadline");
        }
    }
}

async fn accept(
    listener: TcpListener,
    serving: Serving,
    places: Arc<Places>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Errors of the connection that was to be accepted are its client's business.
                if !is_clients(&error) {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                }
                continue;
            }
        };
        let in_force = serving.current.load();
        if serving.offenders.contain(peer.ip()) {
            let metrics = in_force.frontend.metrics();
            metrics.overload().refused(Refused::UsedUp);
            continue;
        }
        let place = match place(&in_force, &places, peer.ip()) {
            Ok(place) => place,
            Err(reason) => {
                in_force.frontend.metrics().overload().refused(reason);
                // Whoever speaks TLS would not understand.
                if let Some(None) = in_force.protection(serving.listener) {
                    refusal::say(socket);
                }
                continue;
            }
        };
        drop(in_force);
        // Answers are small and written whole: waiting to fill a packet only delays them.
        let _ = socket.set_nodelay(true);
        let place = Arc::new(place);
        // Handshakes are made there, too, so that none keeps the next connection waiting.
        tokio::spawn(serving.clone().serve(socket, Peer::connected(peer), place));
    }
}

/// A place for a connection from this address, if it may have one.
fn place(in_force: &InForce, places: &Arc<Places>, ip: IpAddr) -> Result<Place, Refused> {
    let frontend = &in_force.frontend;
    if frontend.overload.pressure() != Pressure::None {
        return Err(Refused::ShortOfMemory);
    }
    let most_of_ip = in_force.max_connections_per_ip;
    let fits = descriptors::shares().clients;
    let bounds = Bounds {
        most: in_force.max_connections.min(fits),
        // Trusted peers speak for many.
        of_ip: most_of_ip
            .filter(|_| !frontend.clients.trusted.contains(ip))
            .map(|most| (ip, most)),
    };
    places.take(bounds).map_err(|no| match no {
        NoPlace::AtAll if fits < in_force.max_connections => Refused::ShortOfDescriptors,
        NoPlace::AtAll => Refused::InAll,
        NoPlace::ForIp => Refused::OfOneIp,
    })
}

fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
