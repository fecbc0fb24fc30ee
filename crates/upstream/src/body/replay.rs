//! Requests that can be sent again.
//!
//! An HTTP/2 server may refuse a request without processing it, by REFUSED_STREAM or by a GOAWAY that names an earlier stream as the last
//! (RFC 9113, 8.7). An HTTP/1 server may close a kept connection while a request is on its way. So the sent part of a small body is kept
//! until the server answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use super::memory::{BufferMemory, Buffered};
use super::{BoxError, RequestBody, size_behind};

/// The most bytes of one body that are kept, counting [`PER_FRAME`] for each frame.
const MAX_KEPT: usize = 64 * 1024;

/// The least time from the start of an attempt until its stream is reset because the client's body broke off. Servers treat early resets as
/// an attack (h2 after 20 resets) and close the connection with all of its requests.
const FIRST_RESET: Duration = Duration::from_millis(100);

/// The estimated bytes of memory that each frame takes in addition to its data.
const PER_FRAME: usize = 64;

/// A copy of a request that is being sent.
#[derive(Debug)]
pub(crate) struct Replay {
    head: Request<()>,
    /// `None` if the request has no body.
    body: Option<Arc<Mutex<KeptBody>>>,
}

impl Replay {
    /// Copies a request, and starts to keep the sent part of its body, up to [`MAX_KEPT`].
    pub(crate) fn of(request: &mut Request<RequestBody>, memory: &Arc<BufferMemory>) -> Self {
        let body = match std::mem::take(request.body_mut()) {
            RequestBody::Empty => None,
            RequestBody::Replayed(body) => {
                let kept = body.kept.clone();
                *request.body_mut() = RequestBody::Replayed(body);
                Some(kept)
            }
            streaming @ RequestBody::Streaming(_) => {
                let fits = streaming.size_hint().lower() <= MAX_KEPT as u64;
                let kept = Arc::new(Mutex::new(KeptBody::new(streaming, fits, memory)));
                *request.body_mut() = RequestBody::Replayed(ReplayedBody {
                    kept: kept.clone(),
                    attempt: 0,
                    next: 0,
                });
                Some(kept)
            }
        };
        Self {
            head: head(request),
            body,
        }
    }

    /// Returns the request for another attempt, or `None` if the sent part of its body was too large to keep. After this call, the previous
    /// attempt's body ends with an error.
    pub(crate) fn again(self) -> Option<Request<RequestBody>> {
        let body = match self.body {
            None => RequestBody::Empty,
            Some(kept) => {
                let mut body = kept.lock();
                if !body.is_whole {
                    return None;
                }
                body.attempt += 1;
                body.begun = Instant::now();
                body.sent = 0;
                let attempt = body.attempt;
                drop(body);
                RequestBody::Replayed(ReplayedBody {
                    kept,
                    attempt,
                    next: 0,
                })
            }
        };
        Some(self.head.map(|()| body))
    }

    /// Frees the kept part of the body, after the server has begun to answer.
    pub(crate) fn release(self) {
        if let Some(body) = self.body {
            body.lock().release();
        }
    }
}

/// Copies a request without its body and extensions.
pub(crate) fn head<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.version_mut() = request.version();
    *head.headers_mut() = request.headers().clone();
    head
}

/// A body with a copy of the part that was sent.
#[derive(Debug)]
struct KeptBody {
    rest: RequestBody,
    frames: Vec<KeptFrame>,
    // The number of frames that the current attempt has sent.
    sent: usize,
    // The reserved memory for `frames`. All bodies of an upstream share this memory.
    taken: Buffered,
    // Whether `frames` holds all parts that were sent.
    is_whole: bool,
    ended: bool,
    // The reason why the body broke, and the time from which the stream may be reset.
    broken: Option<(BoxError, Pin<Box<Sleep>>)>,
    // The number of the attempt that may read the body.
    attempt: u32,
    // The start of the attempt with the number `attempt`.
    begun: Instant,
}

#[derive(Clone, Debug)]
enum KeptFrame {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl KeptBody {
    fn new(rest: RequestBody, is_whole: bool, memory: &Arc<BufferMemory>) -> Self {
        Self {
            rest,
            frames: Vec::new(),
            sent: 0,
            taken: Buffered::none(memory),
            is_whole,
            ended: false,
            broken: None,
            attempt: 0,
            begun: Instant::now(),
        }
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        if !self.is_whole {
            return;
        }
        let (bytes, kept) = match (frame.data_ref(), frame.trailers_ref()) {
            (Some(data), _) => (data.len(), KeptFrame::Data(data.clone())),
            (None, Some(trailers)) => {
                let bytes = trailers
                    .iter()
                    .map(|(name, value)| name.as_str().len() + value.len());
                (bytes.sum(), KeptFrame::Trailers(trailers.clone()))
            }
            (None, None) => return,
        };
        let bytes = bytes + PER_FRAME;
        if self.taken.bytes() + bytes > MAX_KEPT || !self.taken.grow(bytes) {
            self.release();
            return;
        }
        self.frames.push(kept);
    }

    fn breaks(&mut self, error: BoxError) {
        self.release();
        let due = Box::pin(sleep_until(self.begun + FIRST_RESET));
        self.broken = Some((error, due));
    }

    fn poll_broken(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some((_, due)) = &mut self.broken {
            ready!(due.as_mut().poll(context));
        }
        let error = self.broken.take().map(|(error, _)| error);
        // A later poll must return an error. If it returned the end of the body, the server would treat the body as complete.
        self.attempt += 1;
        Poll::Ready(error.map(Err))
    }

    fn release(&mut self) {
        self.is_whole = false;
        // The frames are kept if the current attempt still has to send some of them.
        if self.sent >= self.frames.len() {
            self.frames = Vec::new();
            self.taken.clear();
        }
    }
}

/// The body of one attempt.
#[derive(Debug)]
pub struct ReplayedBody {
    kept: Arc<Mutex<KeptBody>>,
    attempt: u32,
    next: usize,
}

impl ReplayedBody {
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut kept = self.kept.lock();
        if kept.attempt != self.attempt {
            return Poll::Ready(Some(Err("the attempt has ended".into())));
        }
        if let Some(frame) = kept.frames.get(self.next) {
            let frame = frame.clone();
            self.next += 1;
            kept.sent = self.next;
            let frame = match frame {
                KeptFrame::Data(data) => Frame::data(data),
                KeptFrame::Trailers(trailers) => Frame::trailers(trailers),
            };
            return Poll::Ready(Some(Ok(frame)));
        }
        if kept.ended {
            return Poll::Ready(None);
        }
        if kept.broken.is_none() {
            match ready!(Pin::new(&mut kept.rest).poll_frame(context)) {
                Some(Ok(frame)) => {
                    kept.keep(&frame);
                    self.next = kept.frames.len();
                    kept.sent = self.next;
                    return Poll::Ready(Some(Ok(frame)));
                }
                None => {
                    kept.ended = true;
                    return Poll::Ready(None);
                }
                Some(Err(error)) => kept.breaks(error),
            }
        }
        kept.poll_broken(context)
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        let kept = self.kept.lock();
        let is_sent = self.next >= kept.frames.len();
        is_sent && (kept.ended || kept.rest.is_end_stream())
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let kept = self.kept.lock();
        let waiting = kept.frames.iter().skip(self.next).map(|frame| match frame {
            KeptFrame::Data(data) => data.len() as u64,
            KeptFrame::Trailers(_) => 0,
        });
        size_behind(waiting.sum(), &kept.rest.size_hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_is_sent_whole_although_the_answer_comes_early() {
        let memory = Arc::new(BufferMemory::default());
        let mut body = KeptBody::new(RequestBody::Empty, true, &memory);
        for part in ["one", "two", "three"] {
            body.keep(&Frame::data(part.into()));
        }
        let kept = Arc::new(Mutex::new(body));
        let head = Request::new(());
        let replay = |kept| Replay {
            head: head.clone(),
            body: Some(kept),
        };
        let request = replay(kept.clone()).again().unwrap();
        let RequestBody::Replayed(mut body) = request.into_body() else {
            panic!("no body");
        };
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut next = || match body.poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().ok(),
            _ => None,
        };
        assert_eq!(next().unwrap(), "one");
        replay(kept.clone()).release();
        assert_eq!(next().unwrap(), "two");
        assert_eq!(next().unwrap(), "three");
        assert_eq!(next(), None);
        assert!(replay(kept.clone()).again().is_none());
        drop((body, kept));
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn what_is_kept_of_one_body_is_bounded() {
        let memory = Arc::new(BufferMemory::default());
        let mut body = KeptBody::new(RequestBody::Empty, true, &memory);
        body.keep(&Frame::data(vec![0; MAX_KEPT - 2 * PER_FRAME].into()));
        assert!(body.is_whole);
        assert_eq!(memory.taken(), MAX_KEPT - PER_FRAME);
        // Frames without bytes take memory as well.
        body.keep(&Frame::data(Bytes::new()));
        body.sent = body.frames.len();
        body.keep(&Frame::data(Bytes::new()));
        assert!(!body.is_whole);
        assert_eq!(memory.taken(), 0);
        body.keep(&Frame::data(Bytes::new()));
        assert!(body.frames.is_empty());
    }
}
