//! An answer that the gateway reads ahead of a slow client, if the upstream has `max_connections`. So the connection to the upstream is
//! soon free for other requests.
//!
//! At most [`MAX_AHEAD`] bytes of an answer wait in the buffer. A smaller answer frees its connection when the upstream has sent it. A
//! larger answer is read at the rate at which its client takes it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tidegate_telemetry::Cut;
use tidegate_upstream::{BodyState, BoxError, BufferMemory, Buffered, size_behind};
use tokio::task::AbortHandle;

use super::upstream::UpstreamBody;

/// The most bytes of one answer that wait for its client. The last part that was read may exceed this bound.
const MAX_AHEAD: usize = 64 * 1024;

/// The bytes that each part counts in addition to its data, because a part takes memory even if it has little data.
const PER_PART: usize = 64;

/// An answer on its way from the upstream to a client, with a buffer in between.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    buffer: Arc<Mutex<Buffer>>,
    // The state of the request's body, if it has one.
    body_state: Option<Arc<BodyState>>,
    // `None` if the buffer already has the whole answer.
    reader: Option<AbortHandle>,
}

#[derive(Debug)]
struct Buffer {
    parts: VecDeque<Part>,
    bytes: usize,
    // `bytes` plus `PER_PART` for each part.
    held: usize,
    // Whether there was no memory for the last part. If true, the next part is read only after the client has taken all parts.
    is_short: bool,
    has_ended: bool,
    // The reason if the answer ended too early.
    error: Option<BoxError>,
    cut: Option<Cut>,
    // The number of bytes that have not arrived from the upstream yet.
    rest: SizeHint,
    client: Option<Waker>,
    upstream: Option<Waker>,
}

#[derive(Debug)]
struct Part {
    frame: Frame<Bytes>,
    _memory: Option<Buffered>,
}

impl ReadAhead {
    /// Reads the parts of an answer that have already arrived, and starts a task that reads the rest.
    pub(crate) async fn start(mut body: Box<UpstreamBody>, memory: &Arc<BufferMemory>) -> Self {
        let body_state = body.body_state().cloned();
        let buffer = Arc::new(Mutex::new(Buffer::new(body.size_hint())));
        let ended = poll_fn(|context| {
            let read = poll_read(&mut body, &buffer, memory, context);
            Poll::Ready(read.is_ready())
        });
        let reader = (!ended.await).then(|| {
            let (buffer, memory) = (buffer.clone(), memory.clone());
            let reading = async move {
                poll_fn(|context| poll_read(&mut body, &buffer, &memory, context)).await;
            };
            tokio::spawn(reading).abort_handle()
        });
        Self {
            buffer,
            body_state,
            reader,
        }
    }

    /// Returns the side that cuts the answer short if this value is dropped now. `None` if the answer is complete.
    pub(crate) fn cut(&self) -> Option<Cut> {
        let buffer = self.buffer.lock();
        let is_received = buffer.has_ended || buffer.rest.exact() == Some(0);
        let is_taken = is_received && buffer.parts.is_empty();
        buffer.cut.or_else(|| (!is_taken).then_some(Cut::Client))
    }

    /// Whether the gateway cut off the request's body, because the client sent it too slowly or stopped sending.
    pub(crate) fn is_cut(&self) -> bool {
        self.body_state.as_deref().is_some_and(BodyState::is_cut)
    }
}

/// Reads until the answer has ended, or until the buffer has no room.
fn poll_read(
    body: &mut UpstreamBody,
    buffer: &Mutex<Buffer>,
    memory: &Arc<BufferMemory>,
    context: &mut Context<'_>,
) -> Poll<()> {
    loop {
        if !buffer.lock().has_room(context) {
            return Poll::Pending;
        }
        let frame = match body.is_end_stream() {
            true => None,
            false => std::task::ready!(Pin::new(&mut *body).poll_frame(context)),
        };
        let mut buffer = buffer.lock();
        buffer.rest = body.size_hint();
        match frame {
            Some(Ok(frame)) => buffer.add(frame, memory),
            Some(Err(error)) => {
                buffer.cut = body.cut();
                buffer.end(Some(error));
            }
            None => buffer.end(None),
        }
        if buffer.has_ended {
            return Poll::Ready(());
        }
    }
}

impl Buffer {
    const fn new(rest: SizeHint) -> Self {
        Self {
            parts: VecDeque::new(),
            bytes: 0,
            held: 0,
            is_short: false,
            has_ended: false,
            error: None,
            cut: None,
            rest,
            client: None,
            upstream: None,
        }
    }

    /// Whether the next part may be read. If false, the reader is woken when the client takes a part.
    fn has_room(&mut self, context: &Context<'_>) -> bool {
        let may_hold = self.held < MAX_AHEAD && !self.is_short;
        let has_room = may_hold || self.parts.is_empty();
        self.upstream = (!has_room).then(|| context.waker().clone());
        has_room
    }

    fn add(&mut self, frame: Frame<Bytes>, memory: &Arc<BufferMemory>) {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        let memory = memory.take(bytes + PER_PART);
        self.is_short = memory.is_none();
        self.bytes += bytes;
        self.held += bytes + PER_PART;
        self.parts.push_back(Part {
            frame,
            _memory: memory,
        });
        self.wake_client();
    }

    fn end(&mut self, error: Option<BoxError>) {
        self.has_ended = true;
        self.error = error;
        self.wake_client();
    }

    fn wake_client(&mut self) {
        self.client.take().into_iter().for_each(Waker::wake);
    }

    fn take(&mut self) -> Option<Frame<Bytes>> {
        let Part { frame, .. } = self.parts.pop_front()?;
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        self.bytes -= bytes;
        self.held -= bytes + PER_PART;
        self.upstream.take().into_iter().for_each(Waker::wake);
        Some(frame)
    }
}

impl Body for ReadAhead {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut buffer = self.buffer.lock();
        if let Some(frame) = buffer.take() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if buffer.has_ended {
            return Poll::Ready(buffer.error.take().map(Err));
        }
        buffer.client = Some(context.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let buffer = self.buffer.lock();
        buffer.parts.is_empty() && buffer.has_ended && buffer.error.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let buffer = self.buffer.lock();
        size_behind(buffer.bytes as u64, &buffer.rest)
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_bounded_and_without_memory_it_holds_one_part() {
        let memory = Arc::new(BufferMemory::default());
        let context = Context::from_waker(Waker::noop());
        let part = || Frame::data(vec![0; MAX_AHEAD / 4].into());
        let mut buffer = Buffer::new(SizeHint::default());
        for _ in 0..4 {
            assert!(buffer.has_room(&context));
            buffer.add(part(), &memory);
        }
        assert!(!buffer.has_room(&context));
        buffer.take();
        assert!(buffer.has_room(&context));
        let all: Vec<_> = std::iter::from_fn(|| memory.take(MAX_AHEAD / 4)).collect();
        let mut short = Buffer::new(SizeHint::default());
        short.add(part(), &memory);
        assert!(!short.has_room(&context));
        short.take();
        assert!(short.has_room(&context));
        drop((all, buffer));
        short.add(part(), &memory);
        assert!(short.has_room(&context));
    }
}
