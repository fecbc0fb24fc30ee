//! The server: its listeners and their connections, until all are closed.
//!
//! The caller binds the sockets, so it gets the error of a port in use before the server starts. The caller sets [`ServerParts::stop`] to
//! true to stop the server. Listeners may be added and closed at any time.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::Response;
use parking_lot::Mutex;
use tidegate_net::tcp;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::acceptor::Acceptor;
use crate::common::Common;
use crate::drain::stop_asked;
use crate::metrics::ServerMetrics;
use crate::offenders::Offenders;
use crate::overload::Overload;
use crate::refusal;
use crate::service::Service;
use crate::settings::ListenerName;

/// An open port.
#[derive(Debug)]
pub struct Listener {
    /// The name of the listener in [`ConnectionSettings::listeners`](crate::ConnectionSettings::listeners).
    pub name: ListenerName,
    /// The bound socket, which accepts the connections.
    pub socket: TcpListener,
}

/// The parts of a server.
#[derive(Debug)]
pub struct ServerParts<S> {
    /// The service, with its settings. A request gets the service that is in force when the request begins.
    pub service: Arc<ArcSwap<S>>,
    /// The counters.
    pub metrics: Arc<ServerMetrics>,
    /// The memory shortage of the process.
    pub overload: Arc<Overload>,
    /// The answer to a refused connection. Only a listener without TLS sends this answer.
    pub refusal: Response<Bytes>,
    /// Becomes true when the server is to stop.
    pub stop: watch::Receiver<bool>,
}

/// All listeners and their connections.
pub struct Server<S> {
    common: Arc<Common<S>>,
    accepting: Mutex<Vec<(ListenerName, JoinHandle<()>)>>,
}

impl<S: Service> Server<S> {
    /// Returns a server that has no listener yet.
    pub fn new(parts: ServerParts<S>) -> Self {
        let (head, body) = parts.refusal.into_parts();
        let common = Common {
            service: parts.service,
            metrics: parts.metrics,
            overload: parts.overload,
            refusal: refusal::encode(&head, &body),
            stop: parts.stop,
            offenders: Offenders::default(),
            connections: Arc::default(),
            handshakes: Arc::default(),
        };
        Self {
            common: Arc::new(common),
            accepting: Mutex::default(),
        }
    }

    /// Accepts connections on this listener from now on.
    pub fn listen(&self, listener: Listener) {
        let Listener { name, socket } = listener;
        tcp::set_options(&socket);
        let acceptor = Acceptor {
            common: self.common.clone(),
            listener: name,
        };
        let accepting = tokio::spawn(Arc::new(acceptor).accept(socket));
        self.accepting.lock().push((name, accepting));
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.common.connections.open()
    }

    /// Closes all listeners except those with these names. Accepted connections stay open.
    pub fn keep_only(&self, names: &[ListenerName]) {
        self.accepting.lock().retain(|(name, accepting)| {
            let stays = names.contains(name);
            if !stays {
                accepting.abort();
            }
            stays
        });
    }

    /// Waits until a stop is requested, and then until all connections are closed. The second wait takes at most the time
    /// [`drain`](crate::ConnectionSettings::drain).
    pub async fn ended(&self) {
        stop_asked(&mut self.common.stop.clone()).await;
        let accepting = std::mem::take(&mut *self.accepting.lock());
        for (_, accepting) in accepting {
            let _ = accepting.await;
        }
        let closed = self.common.connections.all_closed();
        let drain = self.common.service.load().settings().drain;
        let Some(drain) = drain else {
            return closed.await;
        };
        if timeout(drain, closed).await.is_err() {
            let open = self.common.connections.open();
            tracing::warn!(open, "connections were still open at the drain's deadline");
        }
    }
}

impl<S> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accepting = self.accepting.lock();
        let listeners: Vec<_> = accepting.iter().map(|(name, _)| name.address).collect();
        f.debug_struct("Server")
            .field("listeners", &listeners)
            .finish_non_exhaustive()
    }
}
