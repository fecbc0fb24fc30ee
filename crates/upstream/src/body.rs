//! A request's body on its way to a server, and its current state.

pub(crate) mod first_part;
pub(crate) mod memory;
pub(crate) mod replay;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use replay::ReplayedBody;

/// The error of a body that ends too early.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A body that a client streams, of any type.
pub type StreamingBody = Box<dyn Body<Data = Bytes, Error = BoxError> + Send + Unpin>;

/// Returns the size of a body: `bytes` bytes that were already read, plus the size `rest` of the unread part.
pub fn size_behind(bytes: u64, rest: &SizeHint) -> SizeHint {
    let mut hint = SizeHint::new();
    hint.set_lower(rest.lower() + bytes);
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper + bytes);
    }
    hint
}

/// The current state of a request's body. hyper owns the body, so the body and the task that waits for the answer share this state.
#[derive(Debug)]
pub struct BodyState {
    state: AtomicU8,
    started: Instant,
    // The time at which the last part was passed on, in ms since `started`.
    progress: AtomicU64,
    // The number of bytes that were passed on so far.
    bytes: AtomicU64,
    // Whether the upstream has begun to answer a gRPC call, in which both sides may send at any time.
    talking: AtomicBool,
}

/// The current phase of a body: the side that the gateway waits for, or the reason why the body broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BodyPhase {
    /// All bytes that the client sent were passed on to the upstream.
    Forwarded,
    /// No further bytes have come from the client yet.
    AwaitingClient,
    /// The body grew beyond the largest allowed size.
    TooLarge,
    /// The client stopped sending.
    Stalled,
    /// The client sends more slowly than the lowest allowed rate.
    TooSlow,
    /// The client sent an invalid body, or is gone.
    Broken,
}

impl BodyState {
    /// Returns the state of a body before its first part is sent.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: AtomicU8::new(BodyPhase::Forwarded as u8),
            started: Instant::now(),
            progress: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            talking: AtomicBool::new(false),
        })
    }

    /// Returns the current phase.
    pub fn phase(&self) -> BodyPhase {
        match self.state.load(Ordering::Relaxed) {
            0 => BodyPhase::Forwarded,
            1 => BodyPhase::AwaitingClient,
            2 => BodyPhase::TooLarge,
            3 => BodyPhase::Stalled,
            4 => BodyPhase::TooSlow,
            _ => BodyPhase::Broken,
        }
    }

    /// Returns the time at which the last part of the body was passed on.
    pub fn progress(&self) -> Instant {
        self.started + Duration::from_millis(self.progress.load(Ordering::Relaxed))
    }

    /// Whether the upstream is answering a gRPC call, in which both sides may send at any time.
    pub fn is_talking(&self) -> bool {
        self.talking.load(Ordering::Relaxed)
    }

    /// Whether the gateway cut off the body because its client sent too slowly or stopped sending.
    pub fn is_cut(&self) -> bool {
        matches!(self.phase(), BodyPhase::TooSlow | BodyPhase::Stalled)
    }

    /// Whether the body broke off. In that case a failed exchange is no failure of the server.
    pub fn is_broken_off(&self) -> bool {
        let phase = self.phase();
        !matches!(phase, BodyPhase::Forwarded | BodyPhase::AwaitingClient)
    }

    /// Sets whether the upstream is answering a gRPC call, in which both sides may send at any time. During such an answer the gateway
    /// cannot see which side waits for the other.
    pub fn set_talking(&self, talks: bool) {
        self.talking.store(talks, Ordering::Relaxed);
    }

    /// Sets the current phase.
    pub fn enter(&self, state: BodyPhase) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    /// Returns the number of bytes of the body that were passed on.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Records that a part of the body was passed on.
    pub fn progressed(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.progress.store(elapsed, Ordering::Relaxed);
        self.enter(BodyPhase::Forwarded);
    }
}

/// A request's body.
#[derive(Default)]
pub enum RequestBody {
    /// No body.
    #[default]
    Empty,
    /// The body that the client streams.
    Streaming(StreamingBody),
    /// The body that the client streams, with a copy of the sent part for another attempt.
    Replayed(ReplayedBody),
}

impl fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Empty",
            Self::Streaming(_) => "Streaming",
            Self::Replayed(_) => "Replayed",
        })
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
            Self::Streaming(streaming) => Pin::new(streaming).poll_frame(context),
            Self::Replayed(body) => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Streaming(streaming) => streaming.is_end_stream(),
            Self::Replayed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Streaming(streaming) => streaming.size_hint(),
            Self::Replayed(body) => body.size_hint(),
        }
    }
}
