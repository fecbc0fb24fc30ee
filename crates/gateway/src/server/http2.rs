//! The requests of an HTTP/2 connection, each a task of its own.
//!
//! A client of HTTP/2 can stop one answer and go on with the others, so that the connection's writes do not tell. What
//! tells is that nobody asks for the next part of an answer when one was offered.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep};

tokio::task_local! {
    /// Since when the client has not taken what it was offered of this task's answer.
    static OFFERED: Cell<Option<Instant>>;
}

/// Runs requests, and gives up those whose client takes nothing of the answer for `patience`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    pub(crate) patience: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let stream = Stream {
            stream,
            patience: self.patience,
            stalled: None,
        };
        tokio::spawn(OFFERED.scope(Cell::new(None), stream));
    }
}

pin_project! {
    struct Stream<F> {
        #[pin]
        stream: F,
        patience: Duration,
        // Made when an answer first has to wait for its client, and only moved when it goes off.
        stalled: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for Stream<F> {
    type Output = ();

    /// Ready with the stream or with the client's time; dropped before it has ended, a stream is reset.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.stream.poll(context).is_ready() {
            return Poll::Ready(());
        }
        while let Some(offered) = OFFERED.with(Cell::get) {
            let deadline = offered + *this.patience;
            let stalled = this
                .stalled
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            ready!(stalled.as_mut().poll(context));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            stalled.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

pin_project! {
    /// An answer that notes what is offered and what is taken.
    #[derive(Debug)]
    pub(crate) struct Offered<B> {
        #[pin]
        answer: B,
    }
}

impl<B> Offered<B> {
    /// To be sent by a task of [`Streams`].
    pub(crate) const fn new(answer: B) -> Self {
        Self { answer }
    }
}

impl<B: Body> Body for Offered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = self.project().answer.poll_frame(context);
        let offered = matches!(frame, Poll::Ready(Some(_))).then(Instant::now);
        OFFERED.with(|since| since.set(offered));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}
