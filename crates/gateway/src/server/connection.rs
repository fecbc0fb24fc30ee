//! One client connection, from its first byte to its last.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_tower::Peer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

use super::http2::{Offered, Streams};
use super::opening::Opening;
use super::stream::ClientStream;
use crate::activity::{Activity, Watch};
use crate::dropped::Dropped;
use crate::frontend::{Arrival, Frontend};

/// The most that hyper buffers of a head; the frontend refuses heads long before, with the right status.
const MAX_BUFFER: usize = 128 * 1024;
/// Requests that one HTTP/2 connection may have open.
const MAX_STREAMS: u32 = 100;
/// Headers of one HTTP/2 request, uncompressed, in bytes.
const MAX_HEADER_LIST: u32 = 32 * 1024;
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may take to say so.
const PING_EVERY: Duration = Duration::from_secs(20);

/// Serves a connection until it ends, or, once `drain` says so, until its requests are done.
pub(crate) async fn serve<S>(
    mut socket: S,
    peer: Peer,
    frontend: Arc<Frontend>,
    mut drain: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let timeouts = frontend.timeouts();
    // The first bytes tell who is there and what is spoken; a client may not send them for ever.
    let is_told = frontend.is_told_by(peer);
    let sniffed = tokio::select! {
        biased;
        sniffed = timeout(timeouts.header, Opening::read(&mut socket, peer, is_told)) => sniffed,
        // A connection that has asked nothing yet is as good as idle.
        _ = drain.wait_for(|stop| *stop) => return,
    };
    let Ok(Ok(opening)) = sniffed else {
        return;
    };
    let Opening {
        peer,
        first,
        is_http2,
    } = opening;
    let activity = Activity::new(timeouts.header, timeouts.idle, !is_http2);
    let stream = ClientStream::new(socket, first, activity.clone(), timeouts.idle);
    let answer = {
        let activity = activity.clone();
        move |request: Request<Incoming>| {
            let arrival = Arrival {
                peer,
                in_request: activity.request(),
            };
            let frontend = frontend.clone();
            async move { frontend.handle(request, arrival).await }
        }
    };
    // How a connection ended concerns its client alone; what became of its requests is in the access log.
    let _ = if is_http2 {
        let service = service_fn(move |request| {
            let answer = answer(request);
            async move { Ok::<_, Dropped>(answer.await?.map(Offered::new)) }
        });
        let patience = timeouts.idle;
        let mut builder = http2::Builder::new(Streams { patience });
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEADER_LIST)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        drive(
            connection,
            &activity,
            drain,
            http2::Connection::graceful_shutdown,
        )
        .await
    } else {
        let service = service_fn(answer);
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            // The watchdog's deadlines are finer: this one would also end idle connections.
            .header_read_timeout(None)
            .max_buf_size(MAX_BUFFER);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        drive(
            connection,
            &activity,
            drain,
            http1::Connection::graceful_shutdown,
        )
        .await
    };
}

/// Polls a connection beside its watchdog and the drain.
async fn drive<C>(
    connection: C,
    activity: &Activity,
    mut drain: watch::Receiver<bool>,
    graceful_shutdown: impl Fn(std::pin::Pin<&mut C>),
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = std::pin::pin!(connection);
    let mut watchdog = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    let mut draining = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = watchdog.as_mut() => match activity.watch() {
                Watch::Until(next) => watchdog.as_mut().reset(next),
                Watch::Expired => return Ok(()),
            },
            stop = drain.wait_for(|stop| *stop), if !draining => {
                // An error means that whoever could have asked for a drain is gone, which asks for one as well.
                drop(stop);
                draining = true;
                graceful_shutdown(connection.as_mut());
            }
        }
    }
}
