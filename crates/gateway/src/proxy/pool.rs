//! Connections to an upstream, kept for the next request.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::uri::Authority;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::request_body::RequestBody;

/// How long an idle connection is kept: shorter than the usual keep-alive of servers, which may close one at the very
/// moment that a request is sent on it.
const KEPT: Duration = Duration::from_secs(30);

/// How many idle connections are kept per server.
const MOST_IDLE: usize = 1_024;

/// How much of an upstream's head hyper buffers, in bytes.
const MAX_BUFFER: usize = 128 * 1024;

/// How long an upstream may take for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolTimeouts {
    /// To accept a connection.
    pub(crate) connect: Duration,
    /// To begin its answer, and between two parts of it.
    pub(crate) answer: Duration,
    /// The client's, for the next part of a request's body.
    pub(crate) client: Duration,
}

/// The servers of one upstream, taken in turn.
#[derive(Debug)]
pub(crate) struct Upstream {
    servers: Vec<Arc<Server>>,
    next: AtomicUsize,
    pub(super) timeouts: PoolTimeouts,
}

#[derive(Debug)]
struct Server {
    authority: Authority,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection, and the task that drives it. They end together: hyper alone would first send all that it has buffered,
/// to an upstream that may have stopped reading.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<RequestBody>,
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Why no answer came.
#[derive(Debug)]
pub(super) enum SendError {
    /// No server accepted a connection.
    Unreachable(io::Error),
    /// A server accepted the request and then failed.
    Failed(hyper::Error),
}

/// A connection in use.
#[derive(Debug)]
pub(super) struct Lease {
    connection: Connection,
    server: Arc<Server>,
}

impl Lease {
    /// Keeps the connection for the next request.
    pub(super) fn give_back(self) {
        let Self { connection, server } = self;
        if connection.sender.is_closed() {
            return;
        }
        let mut idle = server.idle.lock();
        if idle.len() < MOST_IDLE {
            let since = Instant::now();
            idle.push(Idle { connection, since });
        }
    }
}

impl Upstream {
    /// An upstream of these servers; at least one.
    pub(crate) fn new(servers: &[Authority], timeouts: PoolTimeouts) -> Self {
        let server = |authority: &Authority| {
            Arc::new(Server {
                authority: authority.clone(),
                idle: Mutex::default(),
            })
        };
        Self {
            servers: servers.iter().map(server).collect(),
            next: AtomicUsize::new(0),
            timeouts,
        }
    }

    /// Sends a request to the next server, and waits for the head of its answer.
    ///
    /// The request goes to another connection or server only if nothing of it was sent.
    pub(super) async fn send(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Lease), SendError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut unreachable = io::Error::from(io::ErrorKind::NotConnected);
        for turn in 0..self.servers.len() {
            let server = &self.servers[(first + turn) % self.servers.len()];
            // Kept connections may turn out to be closed; a fresh one ends this loop either way.
            loop {
                let (mut connection, fresh) = match server.take_idle() {
                    Some(connection) => (connection, false),
                    None => match server.connect(self.timeouts.connect).await {
                        Ok(connection) => (connection, true),
                        Err(error) => {
                            unreachable = error;
                            break;
                        }
                    },
                };
                match connection.sender.try_send_request(request).await {
                    Ok(response) => {
                        let server = server.clone();
                        return Ok((response, Lease { connection, server }));
                    }
                    Err(mut error) => match error.take_message() {
                        Some(unsent) if !fresh => request = unsent,
                        _ => return Err(SendError::Failed(error.into_error())),
                    },
                }
            }
        }
        Err(SendError::Unreachable(unreachable))
    }
}

impl Server {
    /// The connection that was used last, if one is ready.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.retain(|kept| !kept.connection.sender.is_closed() && kept.since.elapsed() < KEPT);
        // One whose last request is not over yet, in hyper's eyes, stays.
        let ready = idle
            .iter()
            .rposition(|kept| kept.connection.sender.is_ready())?;
        Some(idle.swap_remove(ready).connection)
    }

    async fn connect(&self, patience: Duration) -> io::Result<Connection> {
        let host = self.authority.host().trim_matches(['[', ']']);
        let port = self.authority.port_u16().unwrap_or(80);
        let connecting = timeout(patience, TcpStream::connect((host, port)));
        let socket = connecting
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        socket.set_nodelay(true)?;
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_BUFFER)
            .handshake(TokioIo::new(socket))
            .await
            .map_err(io::Error::other)?;
        // Its errors reach whoever sent a request on it.
        let driver = tokio::spawn(connection).abort_handle();
        Ok(Connection { sender, driver })
    }
}
