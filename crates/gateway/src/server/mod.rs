//! The listeners: accept, bound, serve, drain.
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

/// How long requests in flight may take to end after a stop was asked for.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// How long to wait when the system has no file descriptor left for another connection.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Serves until `stop` becomes true, then until all requests in flight are answered, or [`DRAIN`] has passed.
pub(crate) async fn run(
    listeners: Vec<TcpListener>,
    frontend: Arc<Frontend>,
    max_connections: usize,
    stop: watch::Receiver<bool>,
) {
    // One permit per connection: none left, no connection; all back, all are done.
    let connections = Arc::new(Semaphore::new(max_connections));
    let mut accepting = JoinSet::new();
    for listener in listeners {
        let frontend = frontend.clone();
        let connections = connections.clone();
        accepting.spawn(accept(listener, frontend, connections, stop.clone()));
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
    frontend: Arc<Frontend>,
    connections: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) {
    let drain = stop.clone();
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
        let Ok(permit) = connections.clone().try_acquire_owned() else {
            frontend.metrics().connection_refused();
            continue;
        };
        // Answers are small and written whole: waiting to fill a packet only delays them.
        let _ = socket.set_nodelay(true);
        let serving = connection::serve(socket, Peer(peer), frontend.clone(), drain.clone());
        tokio::spawn(async move {
            serving.await;
            drop(permit);
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
