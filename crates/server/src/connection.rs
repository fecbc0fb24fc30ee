//! A connection after its protocol was detected. It serves requests. An idle HTTP/1 connection rests: it keeps only its socket.
//!
//! - `http1`, `http2`: the two protocols
//! - `unparsed`: heads that hyper refused

mod http1;
mod http2;
mod unparsed;

use std::sync::Arc;

use http::{Request, Response};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::sleep_until;

use crate::activity::Activity;
use crate::client_body::{ClientBody, Unread};
use crate::client_io::ClientIo;
use crate::common::Common;
use crate::connection_info::{ConnectionInfo, Facts};
use crate::drain::{LAST_CALL, last_call, memory_short, stop_asked};
use crate::overload::Pressure;
use crate::service::{Dropped, Service};
use crate::settings::Timeouts;

/// The parts that the requests of a connection share.
pub(crate) struct Connection<S> {
    pub(crate) facts: Arc<Facts>,
    pub(crate) common: Arc<Common<S>>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) timeouts: Timeouts,
}

impl<S: Service> Connection<S> {
    /// Serves requests until the connection ends. An error of the connection is not logged, because it affects only one client, and the
    /// access log has the requests.
    pub(crate) async fn serve(self: Arc<Self>, mut io: ClientIo, is_http2: bool) {
        if is_http2 {
            return Box::pin(self.http2(io)).await;
        }
        io.watch_http1(self.activity.clone());
        // The future of `http1` is boxed, so that its memory is free while the connection rests.
        while let Some(resting) = Box::pin(self.clone().http1(io)).await {
            io = resting;
            if !self.rests(&io).await {
                return;
            }
        }
    }

    /// Waits for the next bytes of a resting client. Returns false if the connection must end first: after the idle timeout, at a stop, or
    /// if memory is short.
    async fn rests(&self, io: &ClientIo) -> bool {
        if io.has_more() {
            return true;
        }
        let _resting = self.common.metrics.rest();
        let mut drain = self.facts.drain.clone();
        let mut pressure = self.common.overload.watch();
        tokio::select! {
            biased;
            ready = io.socket().readable() => ready.is_ok(),
            () = sleep_until(self.activity.idle_until()) => false,
            () = last_call(stop_asked(&mut drain)) => false,
            () = memory_short(&mut pressure) => {
                self.common.metrics.idle_closed.inc();
                false
            }
        }
    }

    /// Whether the connection is to end because memory is short and no request was under way for [`LAST_CALL`]. If true, the connection is
    /// counted in `idle_closed`.
    fn sheds(&self) -> bool {
        let is_short = self.common.overload.pressure() != Pressure::None;
        let sheds = is_short && self.activity.quiet_for() >= LAST_CALL;
        if sheds {
            self.common.metrics.idle_closed.inc();
        }
        sheds
    }

    /// Counts the connection in `slow_answers` if it ended because its client took an answer too slowly.
    fn count_cut(&self) {
        if self.activity.is_cut.is_set() {
            self.common.metrics.slow_answers.inc();
        }
    }

    /// Begins a request. The call itself counts the request, before the returned future is polled, so a request is counted even if its
    /// client has left. If the request's body is dropped before its end, `unread` receives the rest of the body.
    fn call(
        &self,
        request: Request<Incoming>,
        unread: Option<Arc<Unread>>,
    ) -> impl Future<Output = Result<Response<S::Body>, Dropped>> + Send + use<S> {
        self.activity.heads.begin();
        let has_body = !request.body().is_end_stream();
        let guard = self.activity.request(has_body);
        let request = request.map(|body| ClientBody {
            incoming: Some(body),
            in_body: has_body.then(|| guard.body()),
            unread,
            ahead: None,
        });
        let service = self.common.service.load_full();
        let connection = self.info(&service);
        service.call(request, connection, guard)
    }

    /// Returns the facts about the connection for a request to this service. The facts are made anew for each request, because a reload may
    /// change the trusted proxies.
    fn info(&self, service: &S) -> ConnectionInfo {
        let peer = self.facts.peer;
        // With the PROXY protocol, only the address in the header counts. If the header names no client, the bytes after it may come from
        // any sender. So the peer is not trusted, even at the address of a trusted proxy.
        let speaks_for_itself =
            !service.settings().expects_proxy_header(self.facts.listener) || peer.is_named;
        ConnectionInfo {
            connection: self.facts.clone(),
            is_trusted: speaks_for_itself && service.is_proxy(peer.address.ip()),
        }
    }
}
