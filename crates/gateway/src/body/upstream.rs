//! An upstream's answer on its way to the client. When the answer ends, its connection is free for the next request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::received::poll_received;
use tidegate_net::headers;
use tidegate_telemetry::Cut;
use tidegate_upstream::{BodyPhase, BodyState, BoxError, Lease, Report, size_behind};

/// The error of a gRPC call that ends without its result.
const NO_TRAILERS: &str = "the answer has no trailers";

/// The body of an upstream's answer.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    inner: Incoming,
    is_http2: bool,
    // The connection, which goes back to the pool at the end of the body. If the body is dropped earlier, the connection is closed.
    lease: Option<Lease>,
    // Records how the answer ended. `None` if the end is already recorded, or need not be recorded.
    report: Option<Report>,
    // The field that the trailers must have. Without this field the answer is not complete.
    trailer: Option<HeaderName>,
    cut: Option<Cut>,
    // The first part, if it arrived before the head was passed on.
    first: Option<Box<Frame<Bytes>>>,
    // The state of the request's body, if it has one.
    body_state: Option<Arc<BodyState>>,
    timeout: Duration,
    heard: Option<Instant>,
    silence: Option<Pin<Box<Sleep>>>,
}

impl UpstreamBody {
    /// Streams `inner`, the answer to a request whose body may still be arriving. The upstream may be silent for at most `timeout`. If
    /// `trailer` is given, the trailers of the answer must have this field.
    pub(crate) fn new(
        (inner, version): (Incoming, Version),
        place: (Lease, Option<Report>),
        body_state: Option<Arc<BodyState>>,
        timeout: Duration,
        trailer: Option<HeaderName>,
    ) -> Box<Self> {
        let (lease, report) = place;
        let mut body = Box::new(Self {
            inner,
            is_http2: version == Version::HTTP_2,
            lease: Some(lease),
            report,
            trailer,
            cut: None,
            first: None,
            body_state,
            timeout,
            heard: None,
            silence: None,
        });
        body.release_at_end();
        body
    }

    /// Takes the first part if it has already arrived.
    ///
    /// # Errors
    ///
    /// The answer has already failed.
    pub(crate) async fn begin(&mut self) -> Result<(), BoxError> {
        poll_fn(|context| {
            let first = Pin::new(&mut *self).poll_frame(context);
            Poll::Ready(match first {
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(first) => {
                    self.first = first.and_then(Result::ok).map(Box::new);
                    Ok(())
                }
                Poll::Pending => Ok(()),
            })
        })
        .await
    }

    fn release_at_end(&mut self) {
        if self.trailer.is_none() && self.inner.is_end_stream() {
            self.release();
        }
    }

    fn release(&mut self) {
        if let Some(body_state) = &self.body_state {
            body_state.set_talking(false);
        }
        if let Some(lease) = self.lease.take() {
            lease.give_back(self.body_state.clone());
        }
        self.report.take().into_iter().for_each(Report::succeeded);
    }

    /// Whether the whole answer has arrived.
    fn is_whole(&self) -> bool {
        let is_received = || self.first.is_none() && self.inner.size_hint().exact() == Some(0);
        self.cut.is_none() && (self.lease.is_none() || self.trailer.is_none() && is_received())
    }

    /// Returns the side that cuts the answer short if this value is dropped now. For an incomplete answer without an error, this side is
    /// the client, because it has left.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
            .or_else(|| (!self.is_whole()).then_some(Cut::Client))
    }

    /// Cuts the answer short. Closes its connection, or resets its stream.
    fn break_off(&mut self, cut: Cut, error: BoxError) -> Option<Result<Frame<Bytes>, BoxError>> {
        let phase = self.body_state.as_deref().map(BodyState::phase);
        let is_broken_off = self
            .body_state
            .as_deref()
            .is_some_and(BodyState::is_broken_off);
        let cut = if is_broken_off { Cut::Client } else { cut };
        self.cut = Some(cut);
        self.lease = None;
        // If the client has not sent its whole body, the silent upstream may be waiting for the client. Then the silence is not the
        // upstream's failure.
        let is_open = cut == Cut::Timeout && phase == Some(BodyPhase::AwaitingClient);
        let report = self
            .report
            .take()
            .filter(|_| cut != Cut::Client && !is_open);
        report.into_iter().for_each(Report::failed);
        Some(Err(error))
    }

    /// Returns the state of the request's body, if it has one.
    pub(crate) const fn body_state(&self) -> Option<&Arc<BodyState>> {
        self.body_state.as_ref()
    }

    /// Whether the gateway cut off the request's body, because the client sent it too slowly or stopped sending.
    pub(crate) fn is_cut(&self) -> bool {
        self.body_state.as_deref().is_some_and(BodyState::is_cut)
    }

    /// Is ready when the upstream has been silent for too long. Resets the timer only when the timer expires, not with each part.
    fn poll_silence(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let heard = *self.heard.get_or_insert_with(Instant::now);
        let timeout = self.timeout;
        let silence = self
            .silence
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(heard + timeout)));
        while silence.as_mut().poll(context).is_ready() {
            if heard.elapsed() >= timeout {
                return Poll::Ready(());
            }
            silence.as_mut().reset(heard + timeout);
        }
        Poll::Pending
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(*first)));
        }
        let is_http2 = self.is_http2;
        match poll_received(&mut self.inner, is_http2, context) {
            Poll::Ready(Some(Ok(mut frame))) => {
                self.heard = None;
                match frame.trailers_mut() {
                    // Releases the connection here, because the body is not polled again after its trailers.
                    Some(trailers) => {
                        if let Some(trailer) = &self.trailer
                            && !trailers.contains_key(trailer)
                        {
                            return Poll::Ready(self.break_off(Cut::Upstream, NO_TRAILERS.into()));
                        }
                        headers::remove_hop_by_hop(trailers);
                        self.release();
                    }
                    None => self.release_at_end(),
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(self.break_off(Cut::Upstream, error)),
            Poll::Ready(None) if self.trailer.is_some() && self.lease.is_some() => {
                Poll::Ready(self.break_off(Cut::Upstream, NO_TRAILERS.into()))
            }
            Poll::Ready(None) => {
                self.release();
                Poll::Ready(None)
            }
            Poll::Pending => self
                .poll_silence(context)
                .map(|()| self.break_off(Cut::Timeout, "the upstream fell silent".into())),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_owed = self.trailer.is_some() && self.lease.is_some();
        self.first.is_none() && !is_owed && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.as_ref().and_then(|first| first.data_ref());
        let first = first.map_or(0, |first| first.len() as u64);
        size_behind(first, &self.inner.size_hint())
    }
}

impl Drop for UpstreamBody {
    fn drop(&mut self) {
        // A body with a known length is not polled after its last byte, so it may be dropped before the end of its HTTP/2 stream arrives.
        // So success is reported here.
        let report = self.report.take().filter(|_| self.is_whole());
        report.into_iter().for_each(Report::succeeded);
        if let Some(body_state) = &self.body_state {
            body_state.set_talking(false);
        }
    }
}
