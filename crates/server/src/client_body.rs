//! The body of a client's request, read from hyper. When the body has been read to its end, the connection's `Activity` is updated. If the
//! body is dropped before its end, the HTTP/2 stream reads and drops the unread part. The beginning of the body can be read before its
//! reader asks for it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::activity::InBody;

/// The most bytes of an unread body that are read and dropped after the answer.
const MOST_UNREAD: usize = 1024 * 1024;
/// The longest time for which an unread body is read after the answer.
const LINGER: Duration = Duration::from_secs(5);

/// A request's body.
#[derive(Debug)]
pub struct ClientBody {
    // `None` after the drop of the body.
    pub(crate) incoming: Option<Incoming>,
    // Records the end of the body in `Activity`; `None` after the end, or if there is no body.
    pub(crate) in_body: Option<InBody>,
    // Over HTTP/2, receives the unread part of the body when the body is dropped; `None` over HTTP/1, and after the end of the body.
    pub(crate) unread: Option<Arc<Unread>>,
    // The beginning of the body, if it was read ahead. Boxed, since most bodies are not read ahead.
    pub(crate) ahead: Option<Box<Ahead>>,
}

/// The beginning of a body, which the reader of the body gets first.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    // The parts are joined, so that many small parts take no more memory than their bytes.
    data: BytesMut,
    // The trailers or the error after the data.
    last: Option<Result<Frame<Bytes>, hyper::Error>>,
}

impl Ahead {
    fn next(&mut self) -> Option<Result<Frame<Bytes>, hyper::Error>> {
        match self.data.is_empty() {
            true => self.last.take(),
            false => Some(Ok(Frame::data(self.data.split().freeze()))),
        }
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.last.is_none()
    }
}

impl ClientBody {
    /// Reads the beginning of the body, for at most `time` and until `is_enough` returns true. Passes each part to `is_enough`, but only the
    /// first `most` bytes in total. The reader of the body gets the same bytes, and a failure, in its turn. Returns whether
    /// `is_enough` got the whole body.
    pub async fn read_ahead(
        &mut self,
        most: usize,
        time: Duration,
        mut is_enough: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let mut ahead = Ahead::default();
        let reading = async {
            loop {
                let frame = poll_fn(|context| self.poll_incoming(context)).await;
                match frame.map(|frame| frame.map(Frame::into_data)) {
                    None => return true,
                    Some(Ok(Ok(part))) => {
                        let left = most.saturating_sub(ahead.data.len());
                        let is_done = is_enough(&part[..part.len().min(left)]);
                        ahead.data.extend_from_slice(&part);
                        if self.incoming_has_ended() {
                            return ahead.data.len() <= most;
                        }
                        if is_done || ahead.data.len() >= most {
                            return false;
                        }
                    }
                    Some(Ok(Err(trailers))) => {
                        ahead.last = Some(Ok(trailers));
                        return true;
                    }
                    Some(Err(error)) => {
                        ahead.last = Some(Err(error));
                        return false;
                    }
                }
            }
        };
        let has_ended = timeout(time, reading).await.unwrap_or(false);
        self.ahead = Some(ahead).filter(|ahead| !ahead.is_empty()).map(Box::new);
        has_ended
    }

    fn poll_incoming(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(incoming) = &mut self.incoming else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(&mut *incoming).poll_frame(context));
        if frame.is_none() || incoming.is_end_stream() {
            self.note_end();
        }
        Poll::Ready(frame)
    }

    fn incoming_has_ended(&self) -> bool {
        self.incoming.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn note_end(&mut self) {
        self.unread = None;
        self.in_body.take().into_iter().for_each(InBody::ended);
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(ahead) = &mut self.ahead {
            if let Some(frame) = ahead.next() {
                return Poll::Ready(Some(frame));
            }
            self.ahead = None;
        }
        self.poll_incoming(context)
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.as_ref().is_none_or(|ahead| ahead.is_empty()) && self.incoming_has_ended()
    }

    fn size_hint(&self) -> SizeHint {
        let incoming = self.incoming.as_ref();
        let hint = incoming.map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint);
        match &self.ahead {
            None => hint,
            Some(ahead) => longer(&hint, ahead.data.len() as u64),
        }
    }
}

/// Returns the hint for a body with `more` bytes in front.
fn longer(hint: &SizeHint, more: u64) -> SizeHint {
    let mut sum = SizeHint::new();
    sum.set_lower(hint.lower().saturating_add(more));
    if let Some(upper) = hint.upper() {
        sum.set_upper(upper.saturating_add(more));
    }
    sum
}

impl Drop for ClientBody {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|body| !body.is_end_stream());
        if let (Some(rest), Some(unread)) = (rest, self.unread.take()) {
            unread.leave(rest);
        }
    }
}

/// The unread rest of a request's body over HTTP/2.
///
/// hyper resets a stream if its body has not ended when the answer is sent. After such a reset, some clients report an error instead of the
/// answer. So the unread part is read before the stream ends, within [`MOST_UNREAD`] and [`LINGER`].
#[derive(Debug, Default)]
pub(crate) struct Unread(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// The body is not dropped, and the answer is not sent yet.
    #[default]
    Open,
    /// The reader has dropped the body.
    Left(Incoming),
    /// The answer is sent.
    Answered,
}

impl Unread {
    /// Keeps the unread part of a body until the answer is sent. If the answer is already sent, reads and drops the unread part.
    fn leave(&self, rest: Incoming) {
        let mut state = self.0.lock();
        match &*state {
            State::Answered => {
                if let Ok(runtime) = Handle::try_current() {
                    runtime.spawn(discard(rest));
                }
            }
            State::Open | State::Left(_) => *state = State::Left(rest),
        }
    }

    /// Records that the answer is sent. Returns the unread part of the body, if its reader has dropped the body.
    pub(crate) fn answered(&self) -> Option<Incoming> {
        match std::mem::replace(&mut *self.0.lock(), State::Answered) {
            State::Left(rest) => Some(rest),
            State::Open | State::Answered => None,
        }
    }
}

/// Reads and drops a body, until it ends, its client resets it, or the bounds are reached.
pub(crate) async fn discard(mut body: Incoming) {
    let reading = async {
        let mut left = MOST_UNREAD;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(less) => left = less,
                // The client sends more than the bound. Waits without further reads, so that the client can read the answer.
                None => std::future::pending::<()>().await,
            }
        }
    };
    // After `LINGER`, the drop of the body resets the stream.
    let _ = timeout(LINGER, reading).await;
}
