//! A connection whose protocol is known: requests come, answers go, and in between it rests.
//!
//! - `http1`, `http2`: the two protocols
//! - `unparsed`: heads that hyper refused

mod http1;
mod http2;
mod unparsed;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use tidegate_net::pace::LeastRate;
use tokio::sync::watch;
use tokio::time::sleep_until;

use crate::activity::Activity;
use crate::client_body::{ClientBody, Unread};
use crate::client_io::ClientIo;
use crate::connection_info::{ConnectionInfo, Facts};
use crate::drain::{LAST_CALL, last_call, memory_short};
use crate::metrics::ServerMetrics;
use crate::offenders::Offenders;
use crate::overload::Pressure;
use crate::service::{Dropped, Service};

/// What the requests of a connection have in common.
pub(crate) struct Connection<S> {
    pub(crate) facts: Arc<Facts>,
    pub(crate) service: Arc<ArcSwap<S>>,
    pub(crate) metrics: Arc<ServerMetrics>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) idle: Duration,
    pub(crate) slow: Option<LeastRate>,
    pub(crate) pressure: watch::Receiver<Pressure>,
    pub(crate) offenders: Arc<Offenders>,
}

impl<S: Service> Connection<S> {
    /// Serves requests until the connection ends. How it ends concerns its client alone; how its requests ended is in the access
    /// log.
    pub(crate) async fn serve(self: Arc<Self>, mut io: ClientIo, is_http2: bool) {
        if is_http2 {
            return Box::pin(self.http2(io)).await;
        }
        io.watch_http1(self.activity.clone());
        // Boxed: a connection that rests keeps nothing of it.
        while let Some(resting) = Box::pin(self.clone().http1(io)).await {
            io = resting;
            if !self.rests(&io).await {
                return;
            }
        }
    }

    /// Waits for the client's next bytes. Returns whether there are any.
    async fn rests(&self, io: &ClientIo) -> bool {
        if io.has_more() {
            return true;
        }
        let _resting = self.metrics.rest();
        let (mut drain, mut pressure) = (self.facts.drain().clone(), self.pressure.clone());
        tokio::select! {
            biased;
            ready = io.socket().readable() => ready.is_ok(),
            () = sleep_until(self.activity.idle_until()) => false,
            () = last_call(&mut drain) => false,
            () = memory_short(&mut pressure) => {
                self.metrics.idle_closed.inc();
                false
            }
        }
    }

    /// Whether the connection is to end because it has no request, and memory is short.
    fn sheds(&self) -> bool {
        let sheds =
            self.activity.quiet_for() >= LAST_CALL && *self.pressure.borrow() != Pressure::None;
        if sheds {
            self.metrics.idle_closed.inc();
        }
        sheds
    }

    /// Counts the connection if it ended because its client took its answers too slowly.
    fn count_cut(&self) {
        if self.activity.is_cut() {
            self.metrics.slow_answers.inc();
        }
    }

    /// Begins a request: at once, before anything else passes on the connection, and also if its client has left. An unread rest of
    /// its body is left to `unread`.
    fn call(
        &self,
        request: Request<Incoming>,
        unread: Option<Arc<Unread>>,
    ) -> impl Future<Output = Result<Response<S::Body>, Dropped>> + Send + use<S> {
        self.activity.heads.begin();
        let has_body = !request.body().is_end_stream();
        let guard = self.activity.request(has_body);
        let in_body = has_body.then(|| guard.body());
        let request = request.map(|body| ClientBody::new(body, in_body, unread));
        let service = self.service.load_full();
        let connection = self.info(&*service);
        service.call(request, connection, guard)
    }

    /// What a request that meets this service knows of the connection. A reload may change which peers are trusted.
    fn info(&self, service: &S) -> ConnectionInfo {
        let peer = self.facts.peer();
        // Where proxies send a PROXY protocol header, only the address that it names is judged. A connection whose header names no
        // client may carry anybody's bytes, so the proxy's own address vouches for nothing.
        let speaks_for_itself = !service.settings().proxy_protocol || peer.is_named;
        let is_trusted = speaks_for_itself && service.is_proxy(peer.address.ip());
        self.facts.of_request(is_trusted)
    }
}
