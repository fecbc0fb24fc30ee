//! Connections to a server, and a request's place on a connection: the whole connection in HTTP/1, one stream in HTTP/2.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TE, TRANSFER_ENCODING};
use http::uri::{Parts, Scheme};
use http::{HeaderValue, Request, Response, Uri, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;

use super::Server;
use crate::body::{BodyState, RequestBody};
use crate::connection_limit::ConnectionPermit;
use crate::interim::Unanswered;
use crate::stream_limit::StreamLimit;
use tidegate_net::descriptors::{UpstreamDescriptor, is_our_shortage};

/// The most streams that are reset on one HTTP/2 connection before it gets no further request. Servers treat many resets as an attack and
/// close the connection with all of its requests: Envoy after 500, Node.js after 1,000.
const MAX_RESETS: usize = 200;

/// The reason why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// The server does not accept the connection, or the HTTP handshake fails.
    Unreachable(io::Error),
    /// The TLS handshake failed: one side does not trust the other, or the server speaks no TLS. The log has the reason.
    Untrusted,
}

impl ConnectError {
    /// Whether this machine had no free descriptor, port or memory for a connection.
    pub(crate) fn is_our_shortage(&self) -> bool {
        match self {
            Self::Unreachable(error) => is_our_shortage(error),
            Self::Untrusted => false,
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

impl From<hyper::Error> for ConnectError {
    fn from(error: hyper::Error) -> Self {
        Self::Unreachable(io::Error::other(error))
    }
}

/// An HTTP/1 connection, and the task that drives it. A drop aborts the task. Without the abort, hyper would first send its buffer to a
/// server that may have stopped reading.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: http1::SendRequest<RequestBody>,
    pub(crate) driver: AbortHandle,
    pub(crate) unanswered: Arc<Unanswered>,
    pub(crate) _descriptor: UpstreamDescriptor,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// An HTTP/2 connection, which many requests share.
#[derive(Debug)]
pub(crate) struct Shared {
    sender: http2::SendRequest<RequestBody>,
    driver: AbortHandle,
    /// The bound on the requests that the server takes at once.
    pub(crate) limit: Arc<StreamLimit>,
    open: AtomicUsize,
    resets: AtomicUsize,
    retired: AtomicBool,
    pub(crate) made: Instant,
    used: Mutex<Instant>,
    _descriptor: UpstreamDescriptor,
}

impl Shared {
    /// Returns a connection, and starts the task that drives it.
    pub(crate) fn new<S>(
        sender: http2::SendRequest<RequestBody>,
        mut connection: http2::Connection<TokioIo<S>, RequestBody, TokioExecutor>,
        limit: Arc<StreamLimit>,
        descriptor: UpstreamDescriptor,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let observed = limit.clone();
        let driven = async move {
            // The open requests receive the driver's error, so the result is ignored here.
            let _ = poll_fn(|context| {
                observed.observe(|| connection.current_max_send_streams(), context);
                Pin::new(&mut connection).poll(context)
            })
            .await;
            drop(connection);
            // Ends the wait for SETTINGS that will not come.
            observed.end_wait();
        };
        Self {
            sender,
            driver: tokio::spawn(driven).abort_handle(),
            limit,
            open: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            made: Instant::now(),
            used: Mutex::new(Instant::now()),
            _descriptor: descriptor,
        }
    }

    /// Whether the connection can take requests, and was idle for less than `kept`.
    pub(crate) fn is_of_use(&self, kept: Duration) -> bool {
        let open = self.open.load(Ordering::Relaxed) > 0;
        let closed = self.sender.is_closed() || self.retired.load(Ordering::Relaxed);
        !closed && (open || self.used.lock().elapsed() < kept)
    }

    /// Returns a stream for one more request, if the connection has fewer open requests than its `limit` allows.
    pub(crate) fn stream(self: &Arc<Self>) -> Option<Stream> {
        let most = self.limit.most();
        let one_more = |open| (open < most).then_some(open + 1);
        let taken = self
            .open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let idle = match taken.ok()? {
            0 => self.used.lock().elapsed(),
            _ => Duration::ZERO,
        };
        Some(Stream::new(self, idle))
    }

    /// Returns the stream of the request for which the connection was opened.
    pub(crate) fn first_stream(self: &Arc<Self>) -> Stream {
        self.open.fetch_add(1, Ordering::Relaxed);
        Stream::new(self, Duration::ZERO)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// One request's stream on a shared connection. A drop makes room for another request.
#[derive(Debug)]
pub(crate) struct Stream {
    shared: Arc<Shared>,
    // The time for which the connection had no request before this one.
    idle: Duration,
    // Whether the whole answer was received. A drop before that counts as a reset of the stream.
    ended: bool,
}

impl Stream {
    fn new(shared: &Arc<Shared>, idle: Duration) -> Self {
        Self {
            shared: shared.clone(),
            idle,
            ended: false,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let shared = &self.shared;
        if !self.ended && shared.resets.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_RESETS {
            shared.retired.store(true, Ordering::Relaxed);
        }
        *shared.used.lock() = Instant::now();
        shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection, or one stream of a connection, for one request.
#[derive(Debug)]
pub struct Lease {
    way: Way,
    /// The request's place at the server, which is freed with the lease. `None` for health checks.
    pub(crate) place: Option<ConnectionPermit>,
}

#[derive(Debug)]
pub(crate) enum Way {
    /// A whole connection, the server that may keep it afterwards, and the time for which it was idle before.
    Own(Connection, Arc<Server>, Duration),
    /// A stream of a shared connection.
    Shared(Stream),
}

impl Lease {
    pub(crate) const fn new(way: Way) -> Self {
        let place = None;
        Self { way, place }
    }

    /// Whether the upstream has `max_connections`, so that other requests may wait for the place of this request.
    pub fn is_bounded(&self) -> bool {
        self.place
            .as_ref()
            .is_some_and(ConnectionPermit::is_bounded)
    }

    /// Whether requests share the connection.
    pub const fn is_shared(&self) -> bool {
        matches!(self.way, Way::Shared(_))
    }

    /// Returns the connection, if other requests share it.
    pub(crate) const fn shared_connection(&self) -> Option<&Arc<Shared>> {
        match &self.way {
            Way::Shared(stream) => Some(&stream.shared),
            Way::Own(..) => None,
        }
    }

    /// Returns the time for which the connection had no request before this one.
    pub(crate) const fn idle(&self) -> Duration {
        match &self.way {
            Way::Own(_, _, idle) => *idle,
            Way::Shared(stream) => stream.idle,
        }
    }

    /// Sends a request, and waits for the head of its answer. The first poll takes the request, and leaves an empty one in its place: a
    /// parameter of this type would be copied into the future, and from there into the future of hyper.
    pub(crate) async fn send(
        &mut self,
        request: &mut Request<RequestBody>,
        server: &Server,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        match &mut self.way {
            Way::Own(connection, ..) => {
                to_http1(request);
                connection.unanswered.begin();
                let request = std::mem::take(request);
                let answer = connection.sender.try_send_request(request).await;
                connection.unanswered.end();
                answer
            }
            Way::Shared(Stream { shared, .. }) => {
                to_http2(request, server);
                let mut sender = shared.sender.clone();
                shared.limit.heads.request();
                let request = std::mem::take(request);
                let answer = sender.try_send_request(request).await;
                if answer.is_ok() {
                    shared.limit.answered();
                }
                answer
            }
        }
    }

    /// Keeps the connection for the next request. `body` is the state of this request's body, which the gateway may still be sending.
    pub fn give_back(self, body: Option<Arc<BodyState>>) {
        match self.way {
            Way::Own(connection, server, _) => server.idle.keep(connection, body),
            Way::Shared(mut stream) => stream.ended = true,
        }
        // The place is freed last: the next waiting request gets the place at once, and must find this connection among the kept
        // connections.
        drop(self.place);
    }

    /// Sends no further requests on the connection, because it may be broken. Open requests on a shared connection continue.
    pub(crate) fn retire(self) {
        if let Way::Shared(Stream { shared, .. }) = &self.way {
            shared.retired.store(true, Ordering::Relaxed);
        }
    }
}

/// Replaces the requested host by the server's own host.
pub(crate) fn name(request: &mut Request<RequestBody>, server: &Server) {
    to_http1(request);
    if let Ok(host) = HeaderValue::from_str(server.settings.authority.as_str()) {
        request.headers_mut().insert(HOST, host);
    }
}

/// Converts a request to HTTP/2: scheme and host move into the target, and the headers of HTTP/1 connections are removed.
fn to_http2(request: &mut Request<RequestBody>, server: &Server) {
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONNECTION);
    let Some(host) = headers.remove(HOST) else {
        // A request without `Host` was converted before.
        return;
    };
    let mut parts = Parts::default();
    let authority = host.as_bytes().try_into().ok();
    parts.authority = authority.or_else(|| Some(server.settings.authority.clone()));
    parts.scheme = Some(if server.is_tls() {
        Scheme::HTTPS
    } else {
        Scheme::HTTP
    });
    parts.path_and_query = request.uri().path_and_query().cloned();
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// Converts a request back from HTTP/2, for another attempt over HTTP/1.
fn to_http1(request: &mut Request<RequestBody>) {
    if request.version() != Version::HTTP_2 {
        return;
    }
    *request.version_mut() = Version::HTTP_11;
    let uri = std::mem::take(request.uri_mut()).into_parts();
    let has_body = !request.body().is_end_stream();
    let headers = request.headers_mut();
    let host = uri.authority.as_ref().map(|host| host.as_str());
    if let Some(Ok(host)) = host.map(HeaderValue::from_str) {
        headers.insert(HOST, host);
    }
    if has_body && !headers.contains_key(CONTENT_LENGTH) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    if headers.contains_key(TE) {
        headers.insert(CONNECTION, HeaderValue::from_static("TE"));
    }
    if let Some(path) = uri.path_and_query {
        *request.uri_mut() = path.into();
    }
}
