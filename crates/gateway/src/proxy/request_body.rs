//! A request's body on its way to the upstream: bounded, never stalled for ever, and telling why it broke off.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::headers;
use super::read_headers::ReadHeaders;
use super::received::ReceivedBody;
use super::replay::ReplayedBody;
use crate::activity::InBody;
use crate::body::BoxError;

/// What became of a request's body so far; shared by the body, which hyper owns, and by whoever waits for the answer.
#[derive(Debug)]
pub(super) struct Fate {
    state: AtomicU8,
    started: Instant,
    // In ms since `started`.
    progress: AtomicU64,
}

/// What a body is doing, or why it broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum BodyState {
    /// The upstream has what the client sent.
    Forwarded,
    /// Nothing more has come from the client yet.
    AwaitingClient,
    /// It grew beyond the largest that is allowed.
    TooLarge,
    /// The client stopped sending.
    Stalled,
    /// What the client sent is no body, or the client is gone.
    Broken,
}

impl Fate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(BodyState::Forwarded as u8),
            started: Instant::now(),
            progress: AtomicU64::new(0),
        })
    }

    pub(super) fn state(&self) -> BodyState {
        match self.state.load(Ordering::Relaxed) {
            0 => BodyState::Forwarded,
            1 => BodyState::AwaitingClient,
            2 => BodyState::TooLarge,
            3 => BodyState::Stalled,
            _ => BodyState::Broken,
        }
    }

    /// When the last part of the body was handed on.
    pub(super) fn progress(&self) -> Instant {
        self.started + Duration::from_millis(self.progress.load(Ordering::Relaxed))
    }

    fn enter(&self, state: BodyState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn progressed(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress.store(elapsed, Ordering::Relaxed);
        self.enter(BodyState::Forwarded);
    }
}

/// A request's body.
#[derive(Debug, Default)]
pub(super) enum RequestBody {
    /// There is none.
    #[default]
    Empty,
    /// What the client streams.
    Streaming(Box<Streaming>),
    /// What the client streams, of which the part that was sent is kept.
    Kept(ReplayedBody),
}

/// A body that comes in parts.
#[derive(Debug)]
pub(super) struct Streaming {
    inner: ReceivedBody,
    left: u64,
    patience: Duration,
    // Runs while the client sends nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    read: Arc<ReadHeaders>,
    in_body: Option<InBody>,
    fate: Arc<Fate>,
}

/// What a body is held to.
#[derive(Debug)]
pub(super) struct Terms {
    /// The most bytes.
    pub(super) most: Option<u64>,
    /// How long the client may take to send the next part.
    pub(super) patience: Duration,
    /// The headers that the route's limits rest on, which nobody may send after the body.
    pub(super) read: Arc<ReadHeaders>,
    /// Where its end is noted.
    pub(super) in_body: Option<InBody>,
}

impl RequestBody {
    /// Streams `inner`, held to `terms`, and tells `fate` what becomes of it.
    pub(super) fn streaming(inner: ReceivedBody, terms: Terms, fate: Arc<Fate>) -> Self {
        Self::Streaming(Box::new(Streaming {
            inner,
            left: terms.most.unwrap_or(u64::MAX),
            patience: terms.patience,
            stalled: None,
            read: terms.read,
            in_body: terms.in_body,
            fate,
        }))
    }
}

/// Why a body was not sent whole.
///
/// hyper resets the stream of an HTTP/2 upstream with the code of the error's source: always CANCEL, never the code that
/// the client chose for its own stream.
#[derive(Debug)]
struct BrokenOff {
    why: BoxError,
    code: h2::Error,
}

impl BrokenOff {
    fn new(why: BoxError) -> Self {
        let code = h2::Reason::CANCEL.into();
        Self { why, code }
    }
}

impl fmt::Display for BrokenOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl std::error::Error for BrokenOff {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.code)
    }
}

impl Streaming {
    fn note_end(&mut self) {
        self.in_body.take().into_iter().for_each(InBody::ended);
    }

    fn end(&self, state: BodyState, why: BoxError) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.fate.enter(state);
        Poll::Ready(Some(Err(Box::new(BrokenOff::new(why)))))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                self.stalled = None;
                if let Some(trailers) = frame.trailers_mut() {
                    headers::trailers_to_upstream(trailers, &self.read);
                }
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                match self.left.checked_sub(length) {
                    Some(left) => self.left = left,
                    None => return self.end(BodyState::TooLarge, "the body is too large".into()),
                }
                self.fate.progressed();
                if self.inner.is_end_stream() {
                    self.note_end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => self.end(BodyState::Broken, error),
            Poll::Ready(None) => {
                self.fate.progressed();
                self.note_end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let patience = self.patience;
                let stalled = self
                    .stalled
                    .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
                self.fate.enter(BodyState::AwaitingClient);
                if stalled.as_mut().poll(context).is_ready() {
                    return self.end(BodyState::Stalled, "the client stopped sending".into());
                }
                Poll::Pending
            }
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Streaming(streaming) => streaming.poll(context),
            Self::Kept(body) => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streaming(streaming) => streaming.inner.is_end_stream(),
            Self::Kept(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streaming(streaming) => streaming.inner.size_hint(),
            Self::Kept(body) => body.size_hint(),
        }
    }
}
