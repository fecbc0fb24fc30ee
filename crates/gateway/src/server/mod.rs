//! The listeners: accept, bound, protect, serve, drain.
//!
//! The caller binds, so that a port in use is found before anything starts, and says when to stop.

mod connection;
mod http2;
mod opening;
mod stream;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_tower::Peer;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::frontend::Frontend;
use crate::tls::ServerTls;
use connection::Serving;

/// How long requests in flight may take to end after a stop was asked for.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// How long to wait when the system has no file descriptor left for another connection.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// An open port, and how it is protected.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    pub(crate) tls: Option<Arc<ServerTls>>,
}

/// Serves until `stop` becomes true, then until all requests in flight are answered, or [`DRAIN`] has passed.
pub(crate) async fn run(
    listeners: Vec<Listener>,
    frontend: Arc<Frontend>,
    max_connections: usize,
    stop: watch::Receiver<bool>,
) {
    // One permit per connection: none left, no connection; all back, all are done.
    let connections = Arc::new(Semaphore::new(max_connections));
    let mut accepting = JoinSet::new();
    for Listener { socket, tls } in listeners {
        let serving = Serving {
            frontend: frontend.clone(),
            tls,
            drain: stop.clone(),
        };
        accepting.spawn(accept(socket, serving, connections.clone(), stop.clone()));
    }
    while accepting.join_next().await.is_some() {}
    let all = u32::try_from(max_connections).unwrap_or(u32::MAX);
    let done = tokio::time::timeout(DRAIN, connections.acquire_many(all)).await;
    if done.is_err() {
        let open = max_connections - connections.available_permits();
        tracing::warn!(open, "connections were still open at the drain's deadline");
    }
}

async fn accept(
    listener: TcpListener,
    serving: Serving,
    connections: Arc<Semaphore>,
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
        let Ok(place) = connections.clone().try_acquire_owned() else {
            serving.frontend.metrics().connection_refused();
            continue;
        };
        // Answers are small and written whole: waiting to fill a packet only delays them.
        let _ = socket.set_nodelay(true);
        let place = Arc::new(place);
        let serving = serving.clone().serve(socket, Peer(peer), place.clone());
        // Handshakes are made here, too, so that none keeps the next connection waiting.
        tokio::spawn(async move {
            serving.await;
            // Its requests have ended as well.
            drop(place);
        });
    }
}

fn is_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
