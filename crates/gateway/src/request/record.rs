//! The end of a request. Every request is counted and logged exactly once, however it ends.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tidegate_net::pace::LeastRate;
use tidegate_server::{BoxError, RequestGuard, ResponseBody, spawn_after_poll};
use tidegate_store::Outcome;
use tidegate_tower::{Action, Decided, InFlight, ReadOn};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::unread::Unread;
use crate::body::{Body, read_on};
use crate::outcome::{Answered, ForwardOutcome};
use tidegate_telemetry::access_log::{AccessLog, Record};
use tidegate_telemetry::metrics::{OpenTunnel, RefusedAnswer, RouteMetrics};
use tidegate_telemetry::traces::Recording;
use tidegate_telemetry::{Cut, RequestId, RequestOutcome};

/// Logs and counts a request when this value is dropped. It is dropped with the body of the answer, or with the request's future if there
/// is no answer.
#[derive(Debug)]
pub(crate) struct RequestEnd {
    record: Option<Box<Record>>,
    recording: Option<Box<Recording>>,
    started: Instant,
    outcome: RequestOutcome,
    status: Option<StatusCode>,
    access_log: AccessLog,
    metrics: Arc<RouteMetrics>,
    // The holds that last until the request ends. The body of the answer may contain the cost by which these holds are settled.
    in_flight: Option<InFlight>,
    unread: Unread,
    // The time from the request's start until the client left, if the client left before the end of the answer.
    took: Option<Duration>,
    // `None` if several decisions belong to one request of the connection.
    guard: Option<RequestGuard>,
}

/// The side that answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    Upstream,
    Gateway,
    /// No side, because the request was dropped.
    Nobody,
}

impl RequestEnd {
    /// Begins a request. Its outcome is `Abandoned` until an answer comes. The value is boxed, because it is moved until the answer ends.
    pub(crate) fn begin(
        record: Option<Record>,
        recording: Option<Box<Recording>>,
        access_log: AccessLog,
        metrics: Arc<RouteMetrics>,
        guard: Option<RequestGuard>,
    ) -> Box<Self> {
        Box::new(Self {
            record: record.map(Box::new),
            recording,
            started: Instant::now(),
            outcome: RequestOutcome::Abandoned,
            status: None,
            access_log,
            metrics,
            in_flight: None,
            unread: Unread::default(),
            took: None,
            guard,
        })
    }

    /// Records the data of an answer, and returns the side that answered. Stores a refusal under the request ID `id`, for `tidegate why`.
    pub(crate) fn answered(
        &mut self,
        answered: Answered,
        status: StatusCode,
        id: Option<&RequestId>,
    ) -> AnsweredBy {
        let Answered {
            decided,
            in_flight,
            error,
            forwarded,
        } = answered;
        self.in_flight = in_flight;
        let by_limits = decided.as_deref();
        let decision = by_limits.and_then(|it| it.decision.as_ref());
        let dropped = by_limits.is_some_and(|it| it.action() == Some(Action::Drop));
        let denied = by_limits.is_some_and(|it| it.denied_by().is_some());
        let sent = Some(status).filter(|_| !dropped);
        self.status = sent;
        let is_answered = forwarded.is_answered();
        let is_preflight = matches!(forwarded, ForwardOutcome::Preflight);
        let is_admitted = matches!(forwarded, ForwardOutcome::Admitted);
        let is_served = matches!(forwarded, ForwardOutcome::Served);
        let forwarded = match forwarded {
            ForwardOutcome::Sent(forwarded) => Some(forwarded),
            ForwardOutcome::None
            | ForwardOutcome::Preflight
            | ForwardOutcome::Served
            | ForwardOutcome::Admitted => None,
        };
        self.outcome = match (decision.map(|decision| decision.outcome), &forwarded) {
            _ if dropped => RequestOutcome::Dropped,
            _ if denied => RequestOutcome::Denied,
            (Some(Outcome::Refused), _) => RequestOutcome::Limited,
            (Some(Outcome::Unavailable), _) => RequestOutcome::Unavailable,
            _ if is_answered => RequestOutcome::Forwarded,
            (_, Some(forwarded)) if forwarded.too_slow => RequestOutcome::Slow,
            _ if status.is_server_error() => RequestOutcome::Failed,
            _ if is_preflight => RequestOutcome::Preflight,
            _ if is_admitted => RequestOutcome::Admitted,
            _ if is_served => RequestOutcome::Served,
            _ => RequestOutcome::Rejected,
        };
        if let Some(forwarded) = forwarded.as_ref().filter(|_| is_answered) {
            self.metrics.forwarded(forwarded.took);
        }
        if let Some(decided) = by_limits {
            self.metrics.decided(decided);
        }
        if let Some(id) = id.filter(|_| self.outcome.is_refusal()) {
            let refused = RefusedAnswer {
                id,
                status: sent,
                outcome: self.outcome,
                error,
            };
            self.metrics.refused(refused, by_limits);
        }
        if let Some(record) = &mut self.record {
            record.answered(sent, decided, forwarded);
            error.into_iter().for_each(|error| record.failed(error));
        }
        match is_answered {
            _ if dropped => AnsweredBy::Nobody,
            true => AnsweredBy::Upstream,
            false => AnsweredBy::Gateway,
        }
    }

    /// Returns the outcome of the request so far.
    pub(crate) const fn outcome(&self) -> RequestOutcome {
        self.outcome
    }

    /// Records that the request was shed.
    pub(crate) const fn shed(&mut self) {
        self.outcome = RequestOutcome::Shed;
    }

    /// Counts a part of the answer's body that was passed to the connection.
    fn sent(&mut self, part: &Bytes) {
        let bytes = part.len() as u64;
        self.metrics.sent(bytes);
        if let Some(record) = &mut self.record {
            record.sent(bytes);
        }
        if self.reads_body() {
            self.unread.put(part);
        }
    }

    /// Looks for the request's cost in the last part that was passed to the connection. The next part may be passed on only after this
    /// function is ready.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &self.in_flight {
            Some(in_flight) => self
                .unread
                .poll_read(|part| in_flight.read_step(part), context),
            None => Poll::Ready(()),
        }
    }

    /// Whether the body of the answer contains a cost of the request.
    fn reads_body(&self) -> bool {
        self.in_flight.as_ref().is_some_and(InFlight::reads_body)
    }

    /// Records that the client left before the end of the answer. Returns a permit to read the rest of the answer. `None` if no hold waits
    /// for a cost in it, or if too many answers are read without their clients.
    fn client_left(&mut self) -> Option<ReadOn> {
        self.took = Some(self.started.elapsed());
        self.in_flight.as_ref()?.client_left()
    }

    /// Reads the rest of the body after the client has left, until the gateway stops.
    async fn read_on(mut self, mut body: Body, mut stop: watch::Receiver<bool>, permit: ReadOn) {
        poll_fn(|context| self.poll_read(context)).await;
        if let Some(in_flight) = &self.in_flight {
            let reading = read_on(&mut body, |part| in_flight.read_step(part));
            tokio::select! {
                () = reading => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        // The request must end before the permit is free for another answer.
        drop(self);
        drop(permit);
    }

    /// Records that the upstream's answer was cut short.
    fn cut(&mut self, cut: Cut) {
        if cut.error().is_some() {
            self.outcome = RequestOutcome::Failed;
            self.in_flight.iter().for_each(InFlight::broke_off);
        }
        self.metrics.cut(cut);
        if let Some(record) = &mut self.record {
            record.cut(cut);
        }
    }

    /// Records that the exchange was cut short, because the client took the answer or sent its body too slowly.
    pub(crate) fn too_slow(&mut self) {
        self.outcome = RequestOutcome::Slow;
    }

    /// Counts the request as a tunnel until the returned value is dropped.
    pub(crate) fn tunnels(&self) -> OpenTunnel {
        self.guard.iter().for_each(RequestGuard::tunnels);
        self.metrics.tunnel()
    }
}

impl Drop for RequestEnd {
    fn drop(&mut self) {
        if self.guard.as_ref().is_some_and(RequestGuard::is_cut) {
            self.too_slow();
        }
        if let Some(in_flight) = &self.in_flight {
            self.unread.read_all(|part| in_flight.read_step(part));
            let decided = self.record.as_mut().and_then(|it| it.decided_mut());
            if let Some(settled) = Decided::settle_body(decided, in_flight) {
                self.metrics.settled_by_body(&settled);
            }
        }
        // The holds end before the log line gets its time, because a replay of the log ends the holds at the time of the line.
        drop(self.in_flight.take());
        let took = self.took.unwrap_or_else(|| self.started.elapsed());
        self.metrics.ended(self.outcome, self.status, took);
        if let Some(mut record) = self.record.take() {
            record.ended(self.outcome, took);
            self.access_log.write(&record);
            if let Some(recording) = &self.recording {
                recording.end(&record);
                self.metrics.recorded(took, recording.trace_id());
            }
        }
    }
}

/// The body of an answer. When it is dropped, the request ends.
#[derive(Debug)]
pub(crate) struct Ended {
    body: Body,
    // Whether the body has ended or failed.
    is_over: bool,
    // Becomes true when the gateway stops. `None` if the body contains no cost.
    stop: Option<watch::Receiver<bool>>,
    // Declared after `body`, so that it is dropped after `body`.
    end: LateEnd,
}

/// Ends a request when the answer's body ends, but only after the cost in the last part has been read.
#[derive(Debug)]
struct LateEnd(Option<Box<RequestEnd>>);

impl Ended {
    pub(crate) const fn new(body: Body, end: Box<RequestEnd>) -> Self {
        Self::of(body, Some(end))
    }

    /// Makes the gateway read the rest of the body even after the client has left, if the body contains a cost. The reading ends when
    /// `stops` becomes true.
    pub(crate) fn until(mut self, stops: &watch::Receiver<bool>) -> Self {
        let reads_body = self.end.0.as_deref().is_some_and(RequestEnd::reads_body);
        self.stop = reads_body.then(|| stops.clone());
        self
    }

    /// Returns the body of an answer whose drop ends no request, such as the answer to a health check.
    pub(crate) const fn without_end(body: Body) -> Self {
        Self::of(body, None)
    }

    const fn of(body: Body, end: Option<Box<RequestEnd>>) -> Self {
        Self {
            body,
            is_over: false,
            stop: None,
            end: LateEnd(end),
        }
    }
}

impl Drop for Ended {
    /// Records the side that cut the body short. If the client left, the gateway may read the rest of the body to find the cost.
    fn drop(&mut self) {
        let Some(cut) = self.body.cut() else {
            return;
        };
        if let Some(end) = &mut self.end.0 {
            end.cut(cut);
        }
        let Some(stop) = self.stop.take_if(|_| !self.is_over) else {
            return;
        };
        if self.body.is_end_stream() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if let Some(permit) = self.end.0.as_deref_mut().and_then(RequestEnd::client_left)
            && let Some(end) = self.end.0.take()
        {
            let body = std::mem::replace(&mut self.body, Body::empty());
            runtime.spawn(end.read_on(body, stop, permit));
        }
    }
}

impl Drop for LateEnd {
    /// Reads the cost in the last part in a new task. A connection drops the body before it sends the last part, so the task starts after
    /// the connection's current poll.
    fn drop(&mut self) {
        if let Some(mut end) = self.0.take_if(|end| !end.unread.is_empty()) {
            spawn_after_poll(async move { poll_fn(|context| end.poll_read(context)).await });
        }
    }
}

impl ResponseBody for Ended {
    fn least_rate(&self, own: Option<LeastRate>) -> Option<LeastRate> {
        self.body.least_rate(own)
    }

    fn cut(&mut self) {
        self.end.0.iter_mut().for_each(|end| end.too_slow());
    }
}

impl HttpBody for Ended {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(end) = &mut self.end.0 {
            ready!(end.poll_read(context));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.is_over = match &frame {
            None | Some(Err(_)) => true,
            Some(Ok(frame)) => frame.is_trailers(),
        };
        let is_cut = matches!(frame, Some(Err(_))) && self.body.is_cut();
        if is_cut {
            self.cut();
        }
        if let Some((Ok(frame), end)) = frame.as_ref().zip(self.end.0.as_mut())
            && let Some(data) = frame.data_ref()
        {
            end.sent(data);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
