//! The status page, its document and its stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{Either, Full};
use tidegate_server::{AdminConnection, AdminStream};
use tidegate_status::page::{self, Part, Rights};
use tidegate_tower::problem;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout, timeout_at};

use crate::status::LiveStatus;

/// The most streams that are open at the same time.
const MOST_STREAMS: usize = 16;
/// The longest time in which a client must take one event.
const SLOW: Duration = Duration::from_secs(10);

/// An answer of the admin port, as a whole or as a stream.
pub(super) type Answer = Either<Full<Bytes>, Events>;

/// The status page, with the permits for its streams.
#[derive(Debug)]
pub(super) struct Page {
    status: Arc<LiveStatus>,
    streams: Arc<Semaphore>,
}

impl Page {
    pub(super) fn new(status: Arc<LiveStatus>) -> Self {
        let streams = Arc::new(Semaphore::new(MOST_STREAMS));
        Self { status, streams }
    }

    /// Answers with a part of the page for a user with these rights. A stream ends at `ends`, before its connection is closed.
    pub(super) fn answer(
        &self,
        part: Part,
        rights: Rights,
        connection: &AdminConnection,
        ends: Instant,
    ) -> Response<Answer> {
        let body = match part {
            Part::Document => Full::from(page::with_tables(&self.status.written().status, rights)),
            Part::Fixed(_, text) => Full::from(text),
            Part::Json => Full::from(self.status.written().whole),
            Part::Live => Full::from(self.status.written().live),
            Part::Events => match self.streams.clone().try_acquire_owned() {
                Ok(permit) => {
                    let held = (permit, connection.stream());
                    let events = Events::of(self.status.clone(), held, ends);
                    return with_headers(part, Either::Right(events));
                }
                Err(_) => return too_many_streams().map(Full::new).map(Either::Left),
            },
        };
        with_headers(part, Either::Left(body))
    }
}

fn with_headers(part: Part, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(part.content_type()));
    for (name, value) in page::HEADERS {
        let name = HeaderName::from_static(name);
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn too_many_streams() -> Response<Bytes> {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "too_many_streams",
        "Too many status pages are open. Read /status.json instead.",
    )
}

/// The stream of the status as server-sent events. Each sample of the counters causes one event.
#[derive(Debug)]
pub(super) struct Events(mpsc::Receiver<Bytes>);

impl Events {
    /// Starts the stream. Keeps `held`, the permit and the connection's mark as a stream, until the stream ends or its client stops
    /// reading.
    fn of(
        status: Arc<LiveStatus>,
        held: (OwnedSemaphorePermit, AdminStream),
        ends: Instant,
    ) -> Self {
        // One event waits for the client while the next is made. A slow client misses events.
        let (sender, receiver) = mpsc::channel(1);
        let sending = async move {
            let mut ticks = status.ticks();
            ticks.mark_changed();
            while ticks.changed().await.is_ok() {
                ticks.borrow_and_update();
                let live = status.written().live;
                let event = [b"retry: 1000\ndata: ", &*live, b"\n\n"].concat();
                match timeout(SLOW, sender.send(event.into())).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        tokio::spawn(async move {
            let _held = held;
            let _ = timeout_at(ends, sending).await;
        });
        Self(receiver)
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0
            .poll_recv(context)
            .map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
