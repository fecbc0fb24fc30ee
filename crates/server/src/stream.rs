//! The requests of an HTTP/2 connection. Each request is a task of its own.
//!
//! An HTTP/2 client can stop one answer and read the others, so the connection's writes do not show which answer waits. An answer waits if
//! hyper has been offered a part and does not poll for the next part.
//!
//! On a slow network, an answer must wait until the client has acknowledged the bytes of the connection that were queued earlier. While the
//! client acknowledges these bytes, each request gets credit for an equal share of them. If all these bytes are acknowledged and hyper does
//! not poll for the next part of the answer, the client has stopped the answer.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use prometheus_client::metrics::counter::Counter;
use tidegate_net::pace::{LeastRate, Pace, Timer};

use crate::activity::{Activity, Wait};
use crate::client_body::{Unread, discard};
use crate::service::{BoxError, ResponseBody};

/// The largest part of an answer that hyper is offered at once, in bytes. The part fits in one frame. hyper takes a whole part when the
/// client has room for one byte of it, so the gateway sees progress in steps of one part.
const PART: usize = 16 * 1024;
/// The smallest part that hyper is offered for a slow client, in bytes.
const LEAST_PART: u64 = 256;
/// The number of small parts that hyper is offered for a slow client, before the parts become large again.
const SMALL_PARTS: u32 = 64;

/// The most bytes of one answer that hyper queues until the client takes them.
pub(crate) const MAX_UNSENT: usize = 64 * 1024;
/// The estimated bytes of all answers of a connection that are in the socket's buffer or in the network.
const IN_SOCKET: u64 = 256 * 1024;

tokio::task_local! {
    /// The answer of this task's request.
    static SENDING: Sending;
}

/// The state of one answer: the offered part, and the wait for the client to take it.
#[derive(Default)]
struct Sending {
    offered: Cell<bool>,
    // The wait for the part, if the client did not take it at once.
    wait: Cell<Option<Wait>>,
    // When the client has acknowledged this number of bytes of the connection, it has taken all bytes that were queued before the part.
    // From then on, only the client can delay the part.
    turn: Cell<u64>,
    // The least rate of the answer.
    least: Cell<Option<LeastRate>>,
    // The time by which the client is behind the least rate.
    pace: Cell<Pace>,
    // Whether the wait lasted until a check of the client's progress.
    is_slow: Cell<bool>,
    cut: Cell<bool>,
    unread: Cell<Option<Arc<Unread>>>,
}

/// Stores `unread`, from which the stream takes the unread part of the request's body. The caller must run in a task of [`Streams`].
pub(crate) fn leave_to(unread: Arc<Unread>) {
    SENDING.with(|sending| sending.unread.set(Some(unread)));
}

/// Runs requests. Cuts off answers that clients take more slowly than the least rate.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub(crate) activity: Arc<Activity>,
    /// Counts answers that are cut off.
    pub(crate) cuts: Counter,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let stream = Stream {
            stream: Some(stream),
            activity: self.activity.clone(),
            cuts: self.cuts.clone(),
            timer: Timer::default(),
            discarding: None,
        };
        tokio::spawn(SENDING.scope(Sending::default(), stream));
    }
}

pin_project! {
    struct Stream<F> {
        // `None` when the answer is sent.
        #[pin]
        stream: Option<F>,
        activity: Arc<Activity>,
        cuts: Counter,
        timer: Timer,
        // Reads and drops the part of the request's body that its reader has left unread.
        discarding: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    }
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    /// Ready when the answer is sent and the unread part of the request's body is read. Also ready when the client has been behind the
    /// least rate for too long. In this second case, the drop of the task resets the stream.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if let Some(stream) = this.stream.as_mut().as_pin_mut() {
            if stream.poll(context).is_pending() {
                ready!(poll_late(this.timer, this.activity, context));
                SENDING.with(|sending| sending.cut.set(true));
                this.cuts.inc();
                return Poll::Ready(());
            }
            let unread = SENDING.with(|sending| sending.unread.take());
            let rest = unread.and_then(|unread| unread.answered());
            *this.discarding = rest.map(|rest| Box::pin(discard(rest)) as _);
            // Drops the request's future, because the request is over.
            this.stream.set(None);
        }
        match this.discarding {
            Some(discarding) => discarding.as_mut().poll(context),
            None => Poll::Ready(()),
        }
    }
}

/// Ready when the client has been behind the least rate for too long.
fn poll_late(timer: &mut Timer, activity: &Activity, context: &mut Context<'_>) -> Poll<()> {
    SENDING.with(|sending| {
        let Some(least) = sending.least.get().filter(|_| sending.offered.get()) else {
            return Poll::Pending;
        };
        let mut pace = sending.pace.get();
        loop {
            let wait = sending.wait.get().unwrap_or_else(|| {
                let wait = activity.wait();
                let queued = activity.requests() * MAX_UNSENT as u64 + IN_SOCKET;
                sending.turn.set(wait.acknowledged + queued);
                wait
            });
            sending.wait.set(Some(wait));
            ready!(timer.poll(wait.since + pace.look(least), context));
            let now = activity.wait();
            pace.waited(now.since - wait.since);
            if now.acknowledged <= sending.turn.get() {
                let acknowledged = now.acknowledged - wait.acknowledged;
                pace.moved(acknowledged / activity.requests(), least);
            }
            sending.pace.set(pace);
            sending.wait.set(Some(now));
            sending.is_slow.set(true);
            if pace.left(least).is_zero() {
                return Poll::Ready(());
            }
        }
    })
}

/// The body of an answer that records which bytes hyper was offered, and which bytes the client has taken.
#[derive(Debug)]
pub(crate) struct Offered<B: ResponseBody> {
    answer: B,
    activity: Arc<Activity>,
    // The bytes of the answer's last part that were not offered yet.
    rest: Bytes,
    offered: usize,
    least: Option<LeastRate>,
    // The number of further parts that are to be small.
    small: u32,
}

impl<B: ResponseBody> Offered<B> {
    /// Wraps an answer that a task of [`Streams`] sends. The client must take it at the rate `least`.
    pub(crate) const fn new(answer: B, least: Option<LeastRate>, activity: Arc<Activity>) -> Self {
        Self {
            answer,
            least,
            activity,
            rest: Bytes::new(),
            offered: 0,
            // Begins with a small part, so that a flow-control window that is small from the start is noticed at once.
            small: 1,
        }
    }

    /// Records that the client has taken the offered part, if there was one.
    fn taken(&mut self, sending: &Sending) {
        if sending.offered.replace(false) {
            self.activity.allowance.add_part(self.offered);
        }
        let wait = sending.wait.take();
        let Some(least) = self.least else { return };
        let mut pace = sending.pace.get();
        if let Some(wait) = wait {
            pace.waited(wait.since.elapsed());
        }
        if sending.is_slow.take() {
            self.small = SMALL_PARTS;
        }
        pace.moved(self.offered as u64, least);
        sending.pace.set(pace);
    }

    /// Returns the size of the next part, in bytes. A small part is sized so that, at the least rate, the client takes it in half of the
    /// allowed time.
    fn part(&mut self) -> usize {
        let Some(least) = self.least.filter(|_| self.small > 0) else {
            return PART;
        };
        self.small -= 1;
        let bytes = u128::from(least.rate.get()) * least.after.as_millis() / 2_000;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).max(LEAST_PART);
        usize::try_from(bytes).map_or(PART, |bytes| bytes.min(PART))
    }

    fn offer(&mut self, frame: Frame<Bytes>, sending: &Sending) -> Frame<Bytes> {
        sending.offered.set(true);
        sending.least.set(self.least);
        match frame.into_data() {
            Ok(mut data) => {
                let part = self.part();
                if data.len() > part {
                    self.rest = data.split_off(part);
                }
                self.offered = data.len();
                Frame::data(data)
            }
            Err(frame) => frame,
        }
    }
}

impl<B: ResponseBody> HttpBody for Offered<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        SENDING.with(|sending| {
            this.taken(sending);
            let frame = match this.rest.is_empty() {
                true => ready!(Pin::new(&mut this.answer).poll_frame(context)),
                false => Some(Ok(Frame::data(std::mem::take(&mut this.rest)))),
            };
            Poll::Ready(frame.map(|frame| frame.map(|frame| this.offer(frame, sending))))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (hint, rest) = (self.answer.size_hint(), self.rest.len() as u64);
        let mut all = SizeHint::new();
        all.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            all.set_upper(upper + rest);
        }
        all
    }
}

impl<B: ResponseBody> Drop for Offered<B> {
    fn drop(&mut self) {
        if SENDING.try_with(|sending| sending.cut.get()) == Ok(true) {
            self.answer.cut();
        }
    }
}
