//! The servers of an upstream, taken in turn.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use super::connection::{ConnectError, Lease};
use super::request_body::RequestBody;
use super::server::Server;
use crate::config::ServerPlan;
use crate::tls::Offer;

/// How often a request without a body is sent again that a server said it did not begin with.
const RETRIES: usize = 2;

/// How long an upstream may take for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolTimeouts {
    /// To accept a connection, with its handshake.
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

/// Why no answer came.
#[derive(Debug)]
pub(super) enum SendError {
    /// No server accepted a connection; why the last one did not.
    Unconnected(ConnectError),
    /// A server accepted the request and then failed.
    Failed(hyper::Error),
}

impl Upstream {
    /// An upstream of these servers; at least one.
    pub(crate) fn new(servers: &[ServerPlan], timeouts: PoolTimeouts) -> Self {
        let servers = servers.iter().cloned().map(Server::new).map(Arc::new);
        Self {
            servers: servers.collect(),
            next: AtomicUsize::new(0),
            timeouts,
        }
    }

    /// Sends a request to the next server, and waits for the head of its answer.
    ///
    /// The request goes to another connection or server only if nothing of it was sent, or if it has no body and the
    /// server said that it did not begin with it (HTTP/2).
    pub(super) async fn send(
        &self,
        mut request: Request<RequestBody>,
        offer: Offer,
    ) -> Result<(Response<Incoming>, Lease), SendError> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let mut retries = RETRIES;
        let none = io::Error::from(io::ErrorKind::NotConnected);
        let mut unconnected = ConnectError::Unreachable(none);
        for turn in 0..self.servers.len() {
            let server = &self.servers[(first + turn) % self.servers.len()];
            // Kept connections may turn out to be closed; a fresh one ends this loop either way.
            loop {
                let (mut lease, fresh) = match server.lease(self.timeouts.connect, offer).await {
                    Ok(leased) => leased,
                    Err(error) => {
                        unconnected = error;
                        break;
                    }
                };
                let copy = copy_for_retry(&request, &lease);
                let mut error = match lease.send(request, server).await {
                    Ok(response) => return Ok((response, lease)),
                    Err(error) => error,
                };
                lease.retire();
                let unsent = error.take_message();
                request = match (unsent, copy) {
                    (Some(unsent), _) if !fresh => unsent,
                    (None, Some(copy)) if retries > 0 && is_refused(error.error()) => {
                        retries -= 1;
                        copy
                    }
                    _ => {
                        server.failed(error.error());
                        return Err(SendError::Failed(error.into_error()));
                    }
                };
            }
        }
        Err(SendError::Unconnected(unconnected))
    }
}

/// What is needed to send a request again; none if that is not possible, or never asked for.
fn copy_for_retry(request: &Request<RequestBody>, lease: &Lease) -> Option<Request<RequestBody>> {
    if !lease.is_shared() || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(RequestBody::Empty);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// Whether a server of HTTP/2 says that it did nothing with a request (RFC 9113, 8.7).
fn is_refused(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
            // A server that goes away names the last request that it began with; those after it end with this error.
            return error.is_remote() && (refused || error.is_go_away());
        }
        cause = error.source();
    }
    false
}
