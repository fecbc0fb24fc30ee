//! A request's body on its way to the upstream: bounded, never stalled for ever, never too slow, and telling why it broke off.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;

use super::headers;
use super::read_headers::ReadHeaders;
use super::received::ReceivedBody;
use super::replay::ReplayedBody;
use crate::body::BoxError;
use crate::client_body::ClientBody;
use crate::pace::{Pace, Timer};
use tidegate_config::LeastRate;

/// What became of a request's body so far; shared by the body, which hyper owns, and by whoever waits for the answer.
#[derive(Debug)]
pub(super) struct Fate {
    state: AtomicU8,
    started: Instant,
    // In ms since `started`.
    progress: AtomicU64,
    // The upstream answers, and may answer each part of the body.
    talking: AtomicBool,
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
    /// The client sends more slowly than it must.
    TooSlow,
    /// What the client sent is no body, or the client is gone.
    Broken,
}

impl Fate {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(BodyState::Forwarded as u8),
            started: Instant::now(),
            progress: AtomicU64::new(0),
            talking: AtomicBool::new(false),
        })
    }

    pub(super) fn state(&self) -> BodyState {
        match self.state.load(Ordering::Relaxed) {
            0 => BodyState::Forwarded,
            1 => BodyState::AwaitingClient,
            2 => BodyState::TooLarge,
            3 => BodyState::Stalled,
            4 => BodyState::TooSlow,
            _ => BodyState::Broken,
        }
    }

    /// When the last part of the body was handed on.
    pub(super) fn progress(&self) -> Instant {
        self.started + Duration::from_millis(self.progress.load(Ordering::Relaxed))
    }

    /// Whether the body was cut off because its client sent it too slowly, or nothing.
    pub(super) fn is_cut(&self) -> bool {
        matches!(self.state(), BodyState::TooSlow | BodyState::Stalled)
    }

    /// The upstream answers a call in which both sides may send at any time: nobody can tell who waits for whom, until it
    /// has ended its answer.
    pub(super) fn talks(&self, talks: bool) {
        self.talking.store(talks, Ordering::Relaxed);
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
    inner: ReceivedBody<ClientBody>,
    left: u64,
    patience: Duration,
    slow: Option<LeastRate>,
    pace: Pace,
    // Since when the client is waited for.
    waiting: Option<Instant>,
    timer: Timer,
    cuts: Counter,
    read: Arc<ReadHeaders>,
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
    /// The least rate at which the client must send it.
    pub(super) slow: Option<LeastRate>,
    /// Counts bodies that are cut off.
    pub(super) cuts: Counter,
}

impl RequestBody {
    /// Streams `inner`, held to `terms`, and tells `fate` what becomes of it.
    pub(super) fn streaming(
        inner: ReceivedBody<ClientBody>,
        terms: Terms,
        fate: Arc<Fate>,
    ) -> Self {
        Self::Streaming(Box::new(Streaming {
            inner,
            left: terms.most.unwrap_or(u64::MAX),
            patience: terms.patience,
            slow: terms.slow,
            pace: Pace::new(),
            waiting: None,
            timer: Timer::new(),
            cuts: terms.cuts,
            read: terms.read,
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
    /// The least rate, where the client is known to be the one that all others wait for.
    fn least_rate(&self) -> Option<LeastRate> {
        let talking = self.fate.talking.load(Ordering::Relaxed);
        self.slow.filter(|_| !talking)
    }

    /// Something came after the client was waited for.
    fn came(&mut self, bytes: u64) {
        let waited = self.waiting.take();
        if let Some(least) = self.least_rate() {
            if let Some(since) = waited {
                self.pace.waited(since.elapsed());
            }
            self.pace.moved(bytes, least);
        }
    }

    /// Ready when the client has been waited for as long as it may be.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<BodyState> {
        let since = *self.waiting.get_or_insert_with(Instant::now);
        let left = self.least_rate().map(|least| self.pace.left(least));
        let (allowed, late) = match left {
            Some(left) if left < self.patience => (left, BodyState::TooSlow),
            _ => (self.patience, BodyState::Stalled),
        };
        self.timer.poll(since + allowed, context).map(|()| late)
    }

    fn end(&self, state: BodyState, why: BoxError) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.fate.enter(state);
        Poll::Ready(Some(Err(Box::new(BrokenOff::new(why)))))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                if let Some(trailers) = frame.trailers_mut() {
                    headers::trailers_to_upstream(trailers, &self.read);
                }
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                self.came(length);
                match self.left.checked_sub(length) {
                    Some(left) => self.left = left,
                    None => return self.end(BodyState::TooLarge, "the body is too large".into()),
                }
                self.fate.progressed();
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => self.end(BodyState::Broken, error),
            Poll::Ready(None) => {
                self.fate.progressed();
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.fate.enter(BodyState::AwaitingClient);
                let late = ready!(self.poll_late(context));
                self.cuts.inc();
                self.end(late, "the client sends too slowly, or nothing".into())
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
