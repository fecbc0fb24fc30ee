//! Streams a request's body to the upstream within bounds of size, silence and rate. Records the reason if the body breaks off.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use tidegate_upstream::{BodyPhase, BodyState, BoxError, RequestBody};

use super::headers;
use super::read_headers::ReadHeaders;
use crate::body::poll_received;
use tidegate_net::pace::LeastRate;
use tidegate_net::pace::{Pace, Timer};
use tidegate_server::ClientBody;

/// A body that is streamed in parts.
#[derive(Debug)]
pub(super) struct Streaming {
    inner: ClientBody,
    is_http2: bool,
    bounds: BodyBounds,
    left: u64,
    pace: Pace,
    // The time when the wait for the client's next part began.
    waiting: Option<Instant>,
    timer: Timer,
    body_state: Arc<BodyState>,
}

/// The bounds of a request's body, and the counters for the body.
#[derive(Debug)]
pub(super) struct BodyBounds {
    /// The most bytes of the body.
    pub(super) most: Option<u64>,
    /// The longest wait for the client's next part.
    pub(super) timeout: Duration,
    /// The headers that the gateway reads on this route, which trailers must not contain.
    pub(super) read: Arc<ReadHeaders>,
    /// The least rate at which the client must send the body.
    pub(super) slow: Option<LeastRate>,
    /// Counts the bytes that were passed to the upstream.
    pub(super) bytes: Counter,
    /// Counts bodies that were cut off because the client sent too slowly.
    pub(super) cuts: Counter,
}

/// Streams `inner` within `bounds`, and records in `body_state` how the body ends.
pub(super) fn streaming(
    inner: ClientBody,
    version: Version,
    bounds: BodyBounds,
    body_state: Arc<BodyState>,
) -> RequestBody {
    RequestBody::Streaming(Box::new(Streaming {
        inner,
        is_http2: version == Version::HTTP_2,
        left: bounds.most.unwrap_or(u64::MAX),
        bounds,
        pace: Pace::default(),
        waiting: None,
        timer: Timer::default(),
        body_state,
    }))
}

/// The reason why a body was not sent completely.
///
/// hyper resets the stream of an HTTP/2 upstream with the code in the error's source. This code is always CANCEL, and never the code with
/// which the client reset its own stream.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
struct BrokenOff {
    why: BoxError,
    #[source]
    code: h2::Error,
}

impl Streaming {
    /// Returns the least rate that the client must keep. `None` during the answer to a gRPC call. Both sides may send at any time then, so
    /// the client may be waiting for the upstream.
    fn least_rate(&self) -> Option<LeastRate> {
        let talking = self.body_state.is_talking();
        self.bounds.slow.filter(|_| !talking)
    }

    /// Counts bytes that arrived, and ends the wait for the client.
    fn came(&mut self, bytes: u64) {
        let waited = self.waiting.take();
        if let Some(least) = self.least_rate() {
            if let Some(since) = waited {
                self.pace.waited(since.elapsed());
            }
            self.pace.moved(bytes, least);
        }
    }

    /// Is ready when the client has sent no bytes for too long, or is too far behind the least rate. Returns which of the two happened.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<BodyPhase> {
        let since = *self.waiting.get_or_insert_with(Instant::now);
        let left = self.least_rate().map(|least| self.pace.left(least));
        let (allowed, late) = match left {
            Some(left) if left < self.bounds.timeout => (left, BodyPhase::TooSlow),
            _ => (self.bounds.timeout, BodyPhase::Stalled),
        };
        self.timer.poll(since + allowed, context).map(|()| late)
    }

    fn end(&self, state: BodyPhase, why: BoxError) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.body_state.enter(state);
        let code = h2::Reason::CANCEL.into();
        Poll::Ready(Some(Err(Box::new(BrokenOff { why, code }))))
    }
}

impl Body for Streaming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let is_http2 = self.is_http2;
        match poll_received(&mut self.inner, is_http2, context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    headers::trailers_to_upstream(trailers, &self.bounds.read);
                }
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.came(length);
                match self.left.checked_sub(length) {
                    Some(left) => self.left = left,
                    None => return self.end(BodyPhase::TooLarge, "the body is too large".into()),
                }
                self.body_state.progressed(length);
                self.bounds.bytes.inc_by(length);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => self.end(BodyPhase::Broken, error),
            Poll::Ready(None) => {
                self.body_state.progressed(0);
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.body_state.enter(BodyPhase::AwaitingClient);
                let late = ready!(self.poll_late(context));
                self.bounds.cuts.inc();
                self.end(late, "the client sends too slowly, or nothing".into())
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
