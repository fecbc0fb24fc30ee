//! One client connection, from its first byte to its last.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_tower::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::http2::{Offered, Streams};
use super::opening::{Opening, Stream, Unopened};
use super::places::Place;
use super::stream::ClientStream;
use crate::activity::{Activity, Watch};
use crate::body::Body;
use crate::dropped::Dropped;
use crate::frontend::Arrival;
use crate::in_force::{Current, ListenerName};
use crate::overload::Pressure;
use crate::tls::HandshakeFailure;

/// The most that hyper buffers of a head; the frontend refuses heads long before, with the right status.
const MAX_BUFFER: usize = 128 * 1024;
/// Requests that one HTTP/2 connection may have open.
const MAX_STREAMS: u32 = 100;
/// Headers of one HTTP/2 request, uncompressed, in bytes, each counted as 32 more: half of what HTTP/1 may send, as a
/// connection has a hundred of them.
const MAX_HEADER_LIST: u32 = 16 * 1024;
/// Requests that an HTTP/2 client may take back before anybody looked at them, and those that it may make us take back,
/// before the connection ends: whoever does more of either means harm.
const MAX_TAKEN_BACK: usize = 20;
const MAX_MADE_RESETS: usize = 1_024;
/// How much of one request's body may wait for its upstream, and of all of a connection, in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How much of one answer may wait for an HTTP/2 client, in bytes.
const MAX_UNSENT: usize = 64 * 1024;
/// How long one answer may wait for an HTTP/2 client at most: who stops a hundred of them costs us as many upstreams.
const LONGEST_STALL: Duration = Duration::from_secs(30);
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long an HTTP/1 connection must have been quiet before a stop closes it. Its client cannot be told but by an answer,
/// and a request that is under way when the connection closes is lost.
const LAST_CALL: Duration = Duration::from_secs(1);

/// What serves the connections of one listener.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    pub(super) current: Arc<Current>,
    pub(super) listener: ListenerName,
    pub(super) pressure: watch::Receiver<Pressure>,
    /// Becomes true when requests in flight are the last.
    pub(super) drain: watch::Receiver<bool>,
}

impl Serving {
    /// Serves a connection until it ends, or, once it drains, until its requests are done.
    pub(super) async fn serve<S>(mut self, socket: S, peer: Peer, place: Arc<Place>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
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
        let opening = Opening::read(stream, peer, is_told, tls.as_deref());
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
            Ok(Ok(opening)) => {
                // Parts of a plan that is no longer in force would live on with this connection.
                drop((in_force, tls));
                return self.converse(opening, activity, timeouts.idle).await;
            }
            Ok(Err(Unopened::Gone)) => None,
            Ok(Err(Unopened::Handshake(failure))) => Some(failure),
            Err(_) => tls.as_ref().map(|_| HandshakeFailure::Timeout),
        };
        if let Some(failure) = failure {
            in_force.frontend.metrics().tls().handshake_failed(failure);
            tracing::debug!(peer = %peer.0, reason = failure.label(), "a TLS handshake failed");
        }
    }

    async fn converse<S>(self, opening: Opening<S>, activity: Arc<Activity>, idle: Duration)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let conversation = Arc::new(Conversation {
            peer: opening.peer,
            is_tls: matches!(opening.stream, Stream::Tls(_)),
            current: self.current,
            activity,
            idle,
            pressure: self.pressure,
            drain: self.drain,
        });
        // How a connection ended concerns its client alone; what became of its requests is in the access log.
        // Boxed is what is larger: of the others there may be many.
        let _ = match (opening.stream, opening.is_http2) {
            (Stream::Plain(stream), false) => conversation.http1(stream).await,
            (Stream::Plain(stream), true) => Box::pin(conversation.http2(stream)).await,
            (Stream::Tls(stream), false) => conversation.http1(stream).await,
            (Stream::Tls(stream), true) => Box::pin(conversation.http2(stream)).await,
        };
    }
}

/// A connection whose protocol is known.
struct Conversation {
    peer: Peer,
    is_tls: bool,
    current: Arc<Current>,
    activity: Arc<Activity>,
    idle: Duration,
    pressure: watch::Receiver<Pressure>,
    drain: watch::Receiver<bool>,
}

impl Conversation {
    async fn http1<S>(self: Arc<Self>, stream: S) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let this = self.clone();
        let service = service_fn(move |request| {
            let this = this.clone();
            async move {
                let mut response = this.answer(request).await?;
                if this.activity.drains() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                Ok::<_, Dropped>(response)
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            // The watchdog's deadlines are finer: this one would also end idle connections.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        let connection = connection.with_upgrades();
        let end = End {
            quiet_for: LAST_CALL,
            shut_down: http1::UpgradeableConnection::graceful_shutdown,
        };
        self.drive(connection, end).await
    }

    async fn http2<S>(self: Arc<Self>, stream: S) -> hyper::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.activity.multiplexes();
        let this = self.clone();
        let service = service_fn(move |request| {
            let this = this.clone();
            async move { Ok::<_, Dropped>(this.answer(request).await?.map(Offered::new)) }
        });
        let mut builder = http2::Builder::new(Streams {
            patience: self.idle.min(LONGEST_STALL),
        });
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADER_LIST)
            .max_pending_accept_reset_streams(MAX_TAKEN_BACK)
            .max_local_error_reset_streams(MAX_MADE_RESETS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(MAX_UNSENT)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        // The client is told which of its requests are served, so nothing that comes later is lost.
        let end = End {
            quiet_for: Duration::ZERO,
            shut_down: http2::Connection::graceful_shutdown,
        };
        self.drive(connection, end).await
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Dropped> {
        let arrival = Arrival {
            peer: self.peer,
            is_tls: self.is_tls,
            in_request: self.activity.request(),
            drain: &self.drain,
        };
        let in_force = self.current.load_full();
        in_force.frontend.handle(request, arrival).await
    }

    /// Polls a connection beside its watchdog, the drain, and the want of memory.
    async fn drive<C, F>(&self, connection: C, end: End<F>) -> hyper::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
        F: Fn(std::pin::Pin<&mut C>),
    {
        let activity = &self.activity;
        let (mut drain, mut pressure) = (self.drain.clone(), self.pressure.clone());
        let mut connection = std::pin::pin!(connection);
        let mut watchdog = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        let mut quiet = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
        let (mut sheds, mut shut_down) = (false, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = watchdog.as_mut() => match activity.watch() {
                    Watch::Until(next) => watchdog.as_mut().reset(next),
                    Watch::Expired => return Ok(()),
                },
                stop = drain.wait_for(|stop| *stop), if !activity.drains() => {
                    // An error means that whoever could have asked for a drain is gone, which asks for one as well.
                    drop(stop);
                    activity.drain();
                    quiet.as_mut().reset(Instant::now() + end.quiet_for);
                }
                () = near(&mut pressure), if !sheds && !activity.drains() => {
                    sheds = true;
                    quiet.as_mut().reset(Instant::now() + LAST_CALL);
                }
                () = quiet.as_mut(), if (activity.drains() || sheds) && !shut_down => {
                    sheds = !activity.drains();
                    if sheds && *pressure.borrow() == Pressure::None {
                        sheds = false;
                        continue;
                    }
                    let needed = if sheds { LAST_CALL } else { end.quiet_for };
                    match needed.saturating_sub(activity.quiet_for()) {
                        Duration::ZERO => {
                            shut_down = true;
                            if sheds {
                                self.current.load().frontend.metrics().overload().idle_closed();
                            }
                            (end.shut_down)(connection.as_mut());
                        }
                        more => quiet.as_mut().reset(Instant::now() + more),
                    }
                }
            }
        }
    }
}

/// How a connection ends when a stop is asked for: once it has been quiet for so long.
struct End<F> {
    quiet_for: Duration,
    shut_down: F,
}

/// Ready a moment after a stop was asked for.
async fn last_call(drain: &mut watch::Receiver<bool>) {
    // An error asks for a stop as well.
    let _ = drain.wait_for(|stop| *stop).await;
    tokio::time::sleep(LAST_CALL).await;
}

/// Ready when the process is short of memory.
async fn near(pressure: &mut watch::Receiver<Pressure>) {
    // Whoever tells lives as long as the gateway.
    let _ = pressure
        .wait_for(|pressure| *pressure != Pressure::None)
        .await;
}

/// Ready a moment after it became so.
async fn last_call_near(pressure: &mut watch::Receiver<Pressure>) {
    near(pressure).await;
    tokio::time::sleep(LAST_CALL).await;
}
