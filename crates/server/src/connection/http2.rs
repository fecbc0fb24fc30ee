//! HTTP/2: many requests at a time. Each request is a task of its own.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::Connection;
use super::unparsed::is_clients_fault;
use crate::charging::{Charge, Charging};
use crate::client_body::Unread;
use crate::client_io::ClientIo;
use crate::drive::{Driven, End, drive};
use crate::service::{Dropped, ResponseBody as _, Service};
use crate::stream::{self, MAX_UNSENT, Offered, Streams};

/// The most requests that one connection may have open.
const MAX_STREAMS: u32 = 100;
/// The most header bytes of one request, uncompressed, plus 32 bytes for each header. The bound is half of the HTTP/1 bound, because an
/// HTTP/2 connection has up to 100 requests at a time.
const MAX_HEADER_LIST: u32 = 16 * 1024;
/// The most requests that the client may have reset while they wait to be processed. More such resets are treated as an attack, and the
/// connection ends.
const MAX_TAKEN_BACK: usize = 20;
/// The most requests of one connection that the gateway resets because of the client's errors. The next such error ends the connection.
const MAX_MADE_RESETS: usize = 1_024;
/// The flow-control window of one request, in bytes: the part of its body that may wait in the gateway for the upstream.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The flow-control window of a connection, in bytes: the parts of all its request bodies that may wait in the gateway for their upstreams.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

impl<S: Service> Connection<S> {
    /// Serves requests until the connection ends.
    pub(super) async fn http2(self: Arc<Self>, mut io: ClientIo) {
        self.activity.multiplexes();
        io.watch_http2(self.activity.clone());
        let this = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let this = this.clone();
            let has_rest = !request.body().is_end_stream();
            let unread = has_rest.then(Arc::<Unread>::default);
            let answer = this.call(request, unread.clone());
            async move {
                if this.activity.heads.is_gone.is_set() {
                    // Drops the request of a client that has left. Over HTTP/1, hyper itself drops such a request.
                    return Err(Dropped::default());
                }
                unread.into_iter().for_each(stream::leave_to);
                let answer = answer.await?;
                let least = answer.body().least_rate(this.timeouts.slow);
                let activity = this.activity.clone();
                activity.answers_at(least);
                Ok::<_, Dropped>(answer.map(|body| Offered::new(body, least, activity)))
            }
        });
        let mut builder = http2::Builder::new(Streams {
            activity: self.activity.clone(),
            cuts: self.common.metrics.slow_answers.clone(),
        });
        builder
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADER_LIST)
            .max_pending_accept_reset_streams(MAX_TAKEN_BACK)
            .max_local_error_reset_streams(MAX_MADE_RESETS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(MAX_UNSENT);
        let connection = builder.serve_connection(TokioIo::new(io), service);
        // HTTP/2 needs no quiet time before the shutdown: GOAWAY names the last request that is served, so the client can repeat later
        // requests.
        let end = End {
            drain: self.facts.drain.clone(),
            quiet_for: Duration::ZERO,
            sheds: || self.sheds(),
            shut_down: |connection: Pin<&mut Charging<_, _>>| {
                http2::Connection::graceful_shutdown(connection.leave());
            },
        };
        let this = self.clone();
        let charge = move |count| -> Charge { Box::pin(this.clone().charge_heads(count)) };
        let mut connection = Box::pin(Charging {
            connection,
            activity: self.activity.clone(),
            charge,
            charging: None,
        });
        let over = drive(connection.as_mut(), &self.activity, end).await;
        drop(connection);
        let mut refused = self.activity.heads.take_refused();
        if let Driven::Over(Err(error)) = over
            && self.activity.heads.none_refused()
            && is_clients_fault(&error)
        {
            // No head was refused, but the client caused the connection's error, so the client is charged for one head.
            refused = 1;
        }
        self.count_cut();
        if self.activity.heads.is_flooded.is_set() {
            return self.charge_flood().await;
        }
        self.charge_heads(refused.min(MAX_STREAMS as usize)).await;
    }
}
