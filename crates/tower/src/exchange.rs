//! The exchange with the upstream for a request that has holds. The exchange continues if the client leaves.
//!
//! If a client leaves, its connection drops the request's future. If the request was not forwarded yet, its holds end without a charge.
//! Otherwise the upstream still works on the request, so the exchange continues in a task of its own. The head of the answer ends the
//! holds, as for a client that is still connected. The answer's body is read if it contains a limit's cost, and is dropped otherwise. The
//! number of exchanges without a client is bounded, and so is the time of each.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::in_flight::{Body, Reservation};
use crate::{AnswerBody, InFlight, WaitQueues};

/// The future of the inner service's answer.
type Answering<R> = Pin<Box<dyn Future<Output = Result<Response<R>, Infallible>> + Send>>;

/// The exchange, as a future. Its output is the answer, and the [`Reservation`] whose holds the head of the answer may end.
pub(crate) struct Exchange<R: AnswerBody> {
    // `None` after the exchange has ended.
    running: Option<Running<R>>,
}

struct Running<R> {
    answering: Answering<R>,
    reservation: Reservation,
    wait_queues: WaitQueues,
}

impl<R: AnswerBody> Exchange<R> {
    pub(crate) fn new(
        answering: impl Future<Output = Result<Response<R>, Infallible>> + Send + 'static,
        reservation: Reservation,
        wait_queues: &WaitQueues,
    ) -> Self {
        Self {
            running: Some(Running {
                answering: Box::pin(answering),
                reservation,
                wait_queues: wait_queues.clone(),
            }),
        }
    }
}

impl<R: AnswerBody> Future for Exchange<R> {
    type Output = (Response<R>, Reservation);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(running) = &mut self.running else {
            return Poll::Pending;
        };
        let Ok(answer) = ready!(running.answering.as_mut().poll(context));
        match self.running.take() {
            Some(running) => Poll::Ready((answer, running.reservation)),
            None => Poll::Pending,
        }
    }
}

impl<R: AnswerBody> Drop for Exchange<R> {
    /// Continues the exchange in a task of its own if the client has left before the answer's head.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abandon();
        }
    }
}

impl<R: AnswerBody> Running<R> {
    fn abandon(self) {
        // If the future panicked, it must not be polled again, so the exchange does not continue.
        let longest = self.reservation.transmission.longest();
        let Some(longest) = longest.filter(|_| !std::thread::panicking()) else {
            return;
        };
        let (answering, reservation) = (self.answering, self.reservation);
        let (address, wait_queues) = (reservation.address, self.wait_queues);
        let permit = wait_queues.abandon(address);
        let (Some(permit), Ok(runtime)) = (permit, Handle::try_current()) else {
            // The upstream may work on the request for the time `longest`, so holds of `concurrency` last for this time.
            reservation.keep(longest);
            return;
        };
        runtime.spawn(async move {
            // If no answer comes in time, the task drops the reservation, which ends the holds.
            if let Ok(Ok(answer)) = timeout(longest, answering).await
                && let (Some(holds), Ok(costs)) = reservation.settle(&answer, |_| {})
            {
                let body = Body {
                    costs,
                    client: None,
                    address,
                    wait_queues,
                    has_left: true,
                    is_cut: false,
                };
                let in_flight = InFlight::new(holds, Some(body));
                answer.into_body().read_on(in_flight).await;
            }
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests;
