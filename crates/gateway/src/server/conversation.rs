//! A connection whose protocol is known: requests come, answers go, and in between it rests.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2 as h2_server};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_tower::Peer;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::client_io::ClientIo;
use super::drive::{Driven, End, drive};
use super::heads::{Charging, Heads};
use super::http2::{self, Offered, Streams};
use super::offenders::Offenders;
use super::opening::Opening;
use super::unparsed::is_clients_fault;
use crate::activity::Activity;
use crate::body::Body;
use crate::client_body::ClientBody;
use crate::dropped::Dropped;
use crate::frontend::{Arrival, Begun};
use crate::in_force::{Current, InForce};
use crate::overload::Pressure;

/// The most that is buffered of a head, in bytes: the longest that the frontend takes, with its method, its separators and some
/// room for white space.
const MAX_BUFFER: usize = 48 * 1024;
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
const LONGEST_STALL: Duration = Duration::from_secs(25);
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long an HTTP/1 connection must have been quiet before a stop closes it. Its client cannot be told but by an answer,
/// and a request that is under way when the connection closes is lost.
pub(super) const LAST_CALL: Duration = Duration::from_secs(1);

/// What the requests of a connection have in common.
pub(super) struct Conversation {
    pub(super) peer: Peer,
    /// The peer's address, as text.
    pub(super) hop: HeaderValue,
    pub(super) is_tls: bool,
    /// When the certificate ends that the client showed; none if it showed none.
    pub(super) certificate_ends: Option<SystemTime>,
    pub(super) current: Arc<Current>,
    pub(super) activity: Arc<Activity>,
    pub(super) idle: Duration,
    pub(super) pressure: watch::Receiver<Pressure>,
    pub(super) drain: watch::Receiver<bool>,
    pub(super) heads: Arc<Heads>,
    pub(super) offenders: Arc<Offenders>,
}

impl Conversation {
    /// Serves requests until the connection ends. How it ended concerns its client alone; what became of its requests is in
    /// the access log.
    pub(super) async fn hold(self: Arc<Self>, opening: Opening) {
        let mut io = opening.stream;
        if opening.is_http2 {
            return Box::pin(self.http2(io)).await;
        }
        io.watch_http1(self.activity.clone(), self.heads.clone());
        // Boxed: a connection that rests holds nothing of it.
        while let Some(resting) = Box::pin(self.clone().http1(io)).await {
            io = resting;
            if !self.rests(&io).await {
                return;
            }
        }
    }

    /// Serves requests until the connection ends, or has nothing to do for a while: then it is given back. Of most
    /// connections of HTTP/1 there is nothing to be done at most times, and hyper holds 16 KiB of buffers for each.
    async fn http1(self: Arc<Self>, io: ClientIo) -> Option<ClientIo> {
        let this = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let this = this.clone();
            let version = request.version();
            let (begun, in_force) = this.begin(request);
            async move {
                let mut response = in_force.frontend.handle(begun, &this.drain).await?;
                this.activity.answers_at(response.body().least_rate());
                if this.activity.drains() && response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                if version == Version::HTTP_10 && is_last(&response) {
                    // Of this version hyper takes an answer for the last one, and adds no `keep-alive`.
                    *response.version_mut() = Version::HTTP_10;
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
        let connection = builder.serve_connection(TokioIo::new(io), service);
        let mut connection = connection.with_upgrades();
        let end = End {
            drain: self.drain.clone(),
            quiet_for: LAST_CALL,
            sheds: || self.sheds(),
            shut_down: http1::UpgradeableConnection::graceful_shutdown,
        };
        match drive(Pin::new(&mut connection), &self.activity, end).await {
            Driven::Over(Err(error)) if error.is_parse() => {
                let parts = connection.into_parts()?;
                let io = parts.io.into_inner();
                Box::pin(self.refuse_head(io, &error, &parts.read_buf)).await;
                None
            }
            Driven::Over(_) => {
                self.count_cut();
                None
            }
            Driven::Rest => {
                let parts = connection.into_parts()?;
                let mut io = parts.io.into_inner();
                io.rest();
                if !parts.read_buf.is_empty() {
                    // The next head has begun, behind a request that is over by now.
                    self.activity.read();
                    io.put_back(parts.read_buf);
                }
                Some(io)
            }
        }
    }

    /// Waits for the client's next word; whether there is one to be heard.
    async fn rests(&self, io: &ClientIo) -> bool {
        if io.has_more() {
            return true;
        }
        let _resting = self.current.load().frontend.metrics().connections().rests();
        let (mut drain, mut pressure) = (self.drain.clone(), self.pressure.clone());
        tokio::select! {
            biased;
            ready = io.socket().readable() => ready.is_ok(),
            () = sleep_until(self.activity.idle_until()) => false,
            () = last_call(&mut drain) => false,
            () = near(&mut pressure) => {
                self.count_idle_closed();
                false
            }
        }
    }

    /// Whether the connection is to end because nothing is under way on it, and others need the memory.
    fn sheds(&self) -> bool {
        let sheds =
            self.activity.quiet_for() >= LAST_CALL && *self.pressure.borrow() != Pressure::None;
        if sheds {
            self.count_idle_closed();
        }
        sheds
    }

    /// Counts the connection if it ended because its client took its answers too slowly.
    fn count_cut(&self) {
        if self.activity.is_cut() {
            let in_force = self.current.load();
            in_force
                .frontend
                .metrics()
                .connections()
                .slow_answers()
                .inc();
        }
    }

    fn count_idle_closed(&self) {
        let in_force = self.current.load();
        in_force.frontend.metrics().overload().idle_closed();
    }

    async fn http2(self: Arc<Self>, mut io: ClientIo) {
        self.activity.multiplexes();
        io.watch_http2(self.heads.clone());
        let this = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let this = this.clone();
            let (mut begun, in_force) = this.begin(request);
            async move {
                if this.heads.is_gone() {
                    // Over HTTP/1 hyper drops such a request itself.
                    return Err(Dropped::default());
                }
                begun.leave_body_to(http2::unread);
                let response = in_force.frontend.handle(begun, &this.drain).await?;
                Ok::<_, Dropped>(response.map(Offered::new))
            }
        });
        let cuts = self
            .current
            .load()
            .frontend
            .metrics()
            .connections()
            .slow_answers();
        let mut builder = h2_server::Builder::new(Streams {
            patience: self.idle.min(LONGEST_STALL),
            cuts,
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
        let connection = builder.serve_connection(TokioIo::new(io), service);
        // The client is told which of its requests are served, so nothing that comes later is lost.
        let end = End {
            drain: self.drain.clone(),
            quiet_for: Duration::ZERO,
            sheds: || self.sheds(),
            shut_down: |connection: Pin<&mut Charging<_>>| {
                h2_server::Connection::graceful_shutdown(connection.leave());
            },
        };
        let connection = Charging::new(connection, self.clone(), self.heads.clone());
        let mut connection = Box::pin(connection);
        let over = drive(connection.as_mut(), &self.activity, end).await;
        drop(connection);
        let mut refused = self.heads.take_refused();
        if let Driven::Over(Err(error)) = over
            && self.heads.none_refused()
            && is_clients_fault(&error)
        {
            // What ended the connection was no head, and is charged as one.
            refused = 1;
        }
        self.count_cut();
        self.charge_heads(refused.min(MAX_STREAMS as usize)).await;
    }

    /// Begins a request: at once, before anything else passes on the connection, and also if nobody waits for its answer
    /// any more.
    fn begin(&self, request: Request<Incoming>) -> (Begun, Arc<InForce>) {
        self.heads.begin();
        let has_body = !request.body().is_end_stream();
        let in_request = self.activity.request(has_body);
        let in_body = has_body.then(|| in_request.body());
        let request = request.map(|body| ClientBody::new(body, in_body));
        let arrival = Arrival {
            peer: self.peer,
            hop: &self.hop,
            is_tls: self.is_tls,
            certificate_ended: self
                .certificate_ends
                .is_some_and(|end| SystemTime::now() > end),
            in_request,
        };
        let in_force = self.current.load_full();
        (in_force.frontend.begin(request, arrival), in_force)
    }
}

/// Ready a moment after a stop was asked for.
pub(super) async fn last_call(drain: &mut watch::Receiver<bool>) {
    // An error asks for a stop as well.
    let _ = drain.wait_for(|stop| *stop).await;
    tokio::time::sleep(LAST_CALL).await;
}

/// Ready when the process is short of memory.
pub(super) async fn near(pressure: &mut watch::Receiver<Pressure>) {
    // Whoever tells lives as long as the gateway.
    let _ = pressure
        .wait_for(|pressure| *pressure != Pressure::None)
        .await;
}

/// Whether the connection of a client of HTTP/1.0 ends with this answer: it says so, or nothing else tells where its body
/// ends.
fn is_last(response: &Response<Body>) -> bool {
    let body = response.body();
    let has_end = body.is_end_stream() || body.size_hint().exact().is_some();
    !has_end || response.headers().contains_key(CONNECTION)
}
