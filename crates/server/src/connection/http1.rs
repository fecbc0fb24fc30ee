//! HTTP/1: one request at a time. An idle connection is returned to the caller, which keeps only its socket until the next request.

use std::pin::Pin;
use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use super::Connection;
use crate::client_io::ClientIo;
use crate::drain::LAST_CALL;
use crate::drive::{Driven, End, drive};
use crate::service::{Dropped, ResponseBody as _, Service};

/// The largest size of hyper's read buffer, in bytes. The buffer holds the longest head that the gateway accepts, with its method,
/// separators and some white space.
const MAX_BUFFER: usize = 48 * 1024;

impl<S: Service> Connection<S> {
    /// Serves requests until the connection ends or may rest. Returns an idle connection, so that the 16 KiB of hyper's buffers are freed:
    /// most connections are idle at most times.
    pub(super) async fn http1(self: Arc<Self>, io: ClientIo) -> Option<ClientIo> {
        let this = self.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let this = this.clone();
            let version = request.version();
            let answer = this.call(request, None);
            async move {
                let mut response = answer.await?;
                this.activity
                    .answers_at(response.body().least_rate(this.timeouts.slow));
                if this.activity.drains.is_set()
                    && response.status() != StatusCode::SWITCHING_PROTOCOLS
                {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                if version == Version::HTTP_10 && is_last(&response) {
                    // With HTTP/1.0 as the version of the answer, hyper adds no `keep-alive` header and closes the connection after the
                    // answer.
                    *response.version_mut() = Version::HTTP_10;
                }
                Ok::<_, Dropped>(response)
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            // hyper's timeout of a head is disabled, because it would also end idle connections. The watchdog has separate deadlines for
            // heads and for idle connections.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER);
        let connection = builder.serve_connection(TokioIo::new(io), service);
        let mut connection = connection.with_upgrades();
        let end = End {
            drain: self.facts.drain.clone(),
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
                    // hyper has already read the first bytes of the next head. They are put back for the next read.
                    self.activity.read();
                    io.put_back(parts.read_buf);
                }
                Some(io)
            }
        }
    }
}

/// Whether the connection of an HTTP/1.0 client ends with this answer: a header requests it, or only the end of the connection marks the
/// end of the body.
fn is_last<B: Body>(response: &Response<B>) -> bool {
    let body = response.body();
    let has_end = body.is_end_stream() || body.size_hint().exact().is_some();
    !has_end || response.headers().contains_key(CONNECTION)
}
