//! One server of an upstream: its protocol, and the connections that are kept for later requests.

mod check;
pub(crate) mod connection;
mod idle;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use self::connection::{ConnectError, Connection, Lease, Shared, Way};
use self::idle::IdleConnections;
use super::connection_limit::ConnectionLimit;
use super::health::Health;
use super::interim::Unanswered;
use super::settings::{ServerSettings, Speaks, UpstreamSettings};
use super::sticky::{ServerMark, Sticky, seed};
use super::stream_limit::{MAX_STREAMS, NO_SETTINGS, SettingsWatch, StreamLimit};
use super::watched::Watched;
use tidegate_net::descriptors::UpstreamDescriptor;
use tidegate_net::tcp;
use tidegate_net::text::cut;
use tidegate_net::tls::{self, Offer};

/// The most bytes of a server's response head, and of hyper's read buffer for an HTTP/1 connection.
const MAX_BUFFER: u32 = 64 * 1024;

/// The most bytes of one HTTP/2 answer that may wait in the gateway for its client.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The receive window of an HTTP/2 connection, in bytes. It has room for the windows of all streams, so a slow client does not block other
/// clients.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * MAX_STREAMS as u32;

/// The most reset streams that hyper records, for a second each. A server may send more frames on a stream until it reads the reset. hyper
/// ignores these frames on recorded streams, and counts them as protocol errors on all other streams. Clients can cause resets, so resets
/// must not end a shared connection.
const MAX_REMEMBERED_RESETS: usize = 1_024;

/// If a kept connection turns out to be closed after less idle time than this, the server probably closes its connections after each
/// answer.
const EARLY: Duration = Duration::from_secs(1);

/// The time for which a server that closed a connection early gets non-idempotent requests on fresh connections only.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The most bytes of a handshake error in a log line.
const MAX_REASON: usize = 1_024;

/// A server, at one address.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Arc<ServerSettings>,
    pub(crate) address: SocketAddr,
    pub(crate) health: Health,
    pub(crate) places: ConnectionLimit,
    /// The credit of the server in the weighted round robin.
    pub(crate) credit: AtomicI64,
    /// The hash of the server's address.
    pub(crate) seed: u64,
    /// The server's name in cookies, if the upstream sets cookies.
    pub(crate) mark: Option<ServerMark>,
    // The same server at the port of its health checks, if this port differs from the port of requests.
    probe: Option<Arc<Self>>,
    pub(crate) idle: IdleConnections,
    // The time for which an idle connection is kept.
    kept: Duration,
    // The last time at which the server closed a connection soon after an answer.
    closed_early: Mutex<Option<Instant>>,
    shared: Mutex<Vec<Arc<Shared>>>,
    // Held during the handshake of a connection that other requests may share.
    opening: tokio::sync::Mutex<()>,
    // Whether requests share connections (HTTP/2). For a TLS server, the value is a guess until the first handshake negotiates the
    // protocol.
    shares: AtomicBool,
    // The TLS error that was logged last. `None` while handshakes succeed.
    tls_error: Mutex<Option<String>>,
}

/// The connections that a request may use.
#[derive(Debug)]
pub(crate) struct Wanted {
    offer: Offer,
    /// Shared connections on which the request was refused, or which were closed.
    pub(crate) avoided: Vec<Arc<Shared>>,
    made_after: Option<Instant>,
}

impl Wanted {
    /// Lets the request use any connection that suits the HTTP versions of `offer`.
    pub(crate) const fn any(offer: Offer) -> Self {
        Self {
            offer,
            avoided: Vec::new(),
            made_after: None,
        }
    }

    /// Avoids all connections that exist now, because the server may have closed them too.
    pub(crate) fn fresh(&mut self) {
        self.made_after = Some(Instant::now());
    }

    fn takes(&self, connection: &Arc<Shared>) -> bool {
        let is_avoided = self.avoided.iter().any(|one| Arc::ptr_eq(one, connection));
        let is_fresh = self.made_after.is_none_or(|at| connection.made >= at);
        !is_avoided && is_fresh
    }
}

impl Server {
    /// Returns the server of `settings` at `address`, with the settings of its upstream.
    pub(crate) fn new(
        settings: Arc<ServerSettings>,
        address: SocketAddr,
        upstream: &UpstreamSettings,
    ) -> Self {
        let port = upstream.health.as_ref().and_then(|health| health.port);
        let port = port.filter(|port| *port != address.port());
        let probe = port.map(|port| {
            let checked = SocketAddr::new(address.ip(), port);
            Arc::new(Self::new(settings.clone(), checked, upstream))
        });
        Self {
            probe,
            health: Health::default(),
            places: ConnectionLimit::new(upstream.max_connections),
            credit: AtomicI64::new(0),
            seed: seed(address),
            mark: match &upstream.sticky {
                Some(Sticky::Cookie(_, key)) => Some(key.mark(address)),
                Some(Sticky::Hash(_)) | None => None,
            },
            shares: AtomicBool::new(!matches!(settings.speaks, Speaks::Http1)),
            settings,
            address,
            idle: IdleConnections::new(upstream.idle),
            kept: upstream.idle,
            closed_early: Mutex::default(),
            shared: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            tls_error: Mutex::default(),
        }
    }

    /// Whether TLS protects the connection to the server.
    pub(crate) fn is_tls(&self) -> bool {
        matches!(self.settings.speaks, Speaks::Tls(_))
    }

    /// Records that a kept connection turned out to be closed after it was idle for `idle`.
    pub(crate) fn closed(&self, idle: Duration) {
        if idle < EARLY {
            *self.closed_early.lock() = Some(Instant::now());
        }
    }

    /// Whether the server seems to close its connections after each answer.
    pub(crate) fn closes_early(&self) -> bool {
        let closed = *self.closed_early.lock();
        closed.is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    /// Returns a connection, and whether it is fresh. A fresh connection must be ready within `timeout`.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        timeout: Duration,
        wanted: &Wanted,
    ) -> Result<(Lease, bool), ConnectError> {
        if let Some(lease) = self.kept(wanted) {
            return Ok((lease, false));
        }
        let offer = wanted.offer;
        let connecting = async {
            let shares = offer == Offer::Any && self.shares.load(Ordering::Relaxed);
            // Concurrent requests wait while the first one connects, because they can share its connection.
            let _opening = match shares {
                true => Some(self.opening.lock().await),
                false => None,
            };
            if shares {
                loop {
                    if let Some(lease) = self.kept(wanted) {
                        return Ok((lease, false));
                    }
                    // A new connection may have room for this request once the server's SETTINGS arrive.
                    match self.new_shared(wanted) {
                        Some(shared) => shared.limit.wait_for_settings().await,
                        None => break,
                    }
                }
            }
            // Boxed to keep this future small: most requests find a kept connection and need no handshake.
            let connected = Box::pin(self.connect(offer)).await;
            connected.map(|lease| (lease, true))
        };
        tokio::time::timeout(timeout, connecting)
            .await
            .unwrap_or_else(|_| Err(ConnectError::Unreachable(io::ErrorKind::TimedOut.into())))
    }

    fn kept(self: &Arc<Self>, wanted: &Wanted) -> Option<Lease> {
        if wanted.offer == Offer::Any
            && let Some(lease) = self.kept_shared(wanted)
        {
            return Some(lease);
        }
        if wanted.made_after.is_some() {
            return None;
        }
        let (connection, idle) = self.idle.take()?;
        Some(Lease::new(Way::Own(connection, self.clone(), idle)))
    }

    fn kept_shared(&self, wanted: &Wanted) -> Option<Lease> {
        if !self.shares.load(Ordering::Relaxed) {
            return None;
        }
        let mut shared = self.shared.lock();
        shared.retain(|connection| connection.is_of_use(self.kept));
        let mut usable = shared.iter().filter(|shared| wanted.takes(shared));
        let stream = usable.find_map(Shared::stream);
        Some(Lease::new(Way::Shared(stream?)))
    }

    /// Returns a shared connection on which the SETTINGS frame of the server has not come yet.
    fn new_shared(&self, wanted: &Wanted) -> Option<Arc<Shared>> {
        let mut shared = self.shared.lock();
        shared.retain(|connection| connection.is_of_use(self.kept));
        let is_new = |shared: &&Arc<Shared>| !shared.limit.is_known() && wanted.takes(shared);
        shared.iter().find(is_new).cloned()
    }

    async fn connect(self: &Arc<Self>, offer: Offer) -> Result<Lease, ConnectError> {
        let host = self.settings.authority.host().trim_matches(['[', ']']);
        let descriptor = match UpstreamDescriptor::take() {
            Ok(descriptor) => descriptor,
            // Without a free descriptor, the oldest idle connection to any upstream is closed for the new one.
            Err(error) if !IdleConnections::close_oldest() => return Err(error.into()),
            Err(_) => UpstreamDescriptor::take()?,
        };
        let socket = TcpStream::connect(self.address).await?;
        socket.set_nodelay(true)?;
        tcp::set_options(&socket);
        match &self.settings.speaks {
            Speaks::Http1 => self.http1(socket, descriptor).await,
            Speaks::Http2 => self.http2(socket, descriptor).await,
            Speaks::Tls(tls) => {
                let connected = tls.connect(host, socket, offer).await;
                self.log_tls_error(connected.as_ref().err());
                let stream = connected.map_err(|_| ConnectError::Untrusted)?;
                let is_http2 = tls::is_http2(stream.get_ref().1);
                if offer == Offer::Any {
                    self.shares.store(is_http2, Ordering::Relaxed);
                }
                match is_http2 {
                    true => self.http2(stream, descriptor).await,
                    false => self.http1(stream, descriptor).await,
                }
            }
        }
    }

    async fn http1<S>(
        self: &Arc<Self>,
        stream: S,
        descriptor: UpstreamDescriptor,
    ) -> Result<Lease, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder
            .max_buf_size(MAX_BUFFER as usize)
            .max_header_size(MAX_BUFFER as usize);
        let unanswered = Unanswered::new();
        let stream = Watched::new(stream, unanswered.clone());
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // The request on the connection receives the driver's errors, so the task's result is not needed.
        let driver = tokio::spawn(connection.with_upgrades()).abort_handle();
        let connection = Connection {
            sender,
            driver,
            unanswered,
            _descriptor: descriptor,
        };
        let way = Way::Own(connection, self.clone(), Duration::ZERO);
        Ok(Lease::new(way))
    }

    async fn http2<S>(
        &self,
        stream: S,
        descriptor: UpstreamDescriptor,
    ) -> Result<Lease, ConnectError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let limit = Arc::new(StreamLimit::new());
        let stream = Watched::new(stream, SettingsWatch::new(limit.clone()));
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(STREAM_WINDOW as usize)
            .max_header_list_size(MAX_BUFFER)
            .initial_max_send_streams(NO_SETTINGS)
            .max_concurrent_reset_streams(MAX_REMEMBERED_RESETS)
            .max_local_error_reset_streams(None);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        let shared = Arc::new(Shared::new(sender, connection, limit, descriptor));
        let stream = Shared::first_stream(&shared);
        self.shared.lock().push(shared);
        Ok(Lease::new(Way::Shared(stream)))
    }

    /// Logs a TLS error that comes after the handshake. Some servers check the gateway's certificate only after the gateway has finished
    /// its handshake.
    pub(crate) fn failed(&self, error: &hyper::Error) {
        if let Some(reason) = tls::reason_in(error) {
            self.log_tls_error(Some(&reason));
        }
    }

    /// Logs each new reason why TLS with this server fails, and logs when TLS succeeds again.
    fn log_tls_error(&self, reason: Option<&String>) {
        let mut tls_error = self.tls_error.lock();
        if tls_error.as_ref() == reason {
            return;
        }
        *tls_error = reason.cloned();
        let server = &self.settings;
        match reason {
            Some(reason) => {
                // The reason is cut: it may list the names of the certificate, and the server chooses their length.
                let reason = &*cut(reason, MAX_REASON).into_cow();
                tracing::warn!(%server, reason, "TLS with a server of an upstream fails");
            }
            None => tracing::info!(%server, "TLS with a server of an upstream works again"),
        }
    }
}
