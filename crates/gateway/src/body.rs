//! The body of an answer: a few bytes from the gateway, an upstream's stream, or an empty body before a tunnel.

mod ahead;
mod read_on;
mod received;
mod upstream;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::outcome::{Answered, ForwardOutcome};
use tidegate_doors::RpcBody;
use tidegate_net::pace::LeastRate;
use tidegate_telemetry::Cut;
use tidegate_telemetry::metrics::RouteMetrics;
use tidegate_tower::{AnswerBody, Decided, InFlight};
use tidegate_upstream::{BoxError, Tunnel};

pub(crate) use ahead::ReadAhead;
pub(crate) use read_on::read_on;
pub(crate) use received::poll_received;
pub(crate) use upstream::UpstreamBody;

/// The body of an answer.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    slow: Option<LeastRate>,
    // The metrics for the cost that this body contains. They are used only if the client leaves before the body begins.
    counted: Option<Arc<RouteMetrics>>,
    // The data about the answer, until `take_answered`. Until then the body must not be replaced by another body.
    answered: Option<Box<Answered>>,
}

/// The content of a body. A body is moved from step to step, so large variants are boxed.
#[derive(Debug)]
enum Content {
    Whole(Option<Bytes>),
    Upstream(Box<UpstreamBody>),
    Ahead(ReadAhead),
    Tunnel(Option<Box<Tunnel>>),
    Rpc(Box<RpcBody>),
}

impl Body {
    /// Returns a body that streams an upstream's answer. `slow` is the least rate at which the client must take the body.
    pub(crate) fn upstream(body: Box<UpstreamBody>, slow: Option<LeastRate>) -> Self {
        Self::of(Content::Upstream(body), slow)
    }

    /// Returns a body that streams an upstream's answer, which the gateway reads ahead of the client. `slow` is the least rate at which the
    /// client must take the body.
    pub(crate) fn ahead(body: ReadAhead, slow: Option<LeastRate>) -> Self {
        Self::of(Content::Ahead(body), slow)
    }

    /// Returns the body of a reply to a gRPC call of a door.
    pub(crate) fn rpc(body: RpcBody) -> Self {
        Self::of(Content::Rpc(Box::new(body)), None)
    }

    /// Returns an empty body, after which a tunnel opens.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self::of(Content::Tunnel(Some(Box::new(tunnel))), None)
    }

    const fn of(content: Content, slow: Option<LeastRate>) -> Self {
        Self {
            content,
            slow,
            counted: None,
            answered: None,
        }
    }

    /// Sets the metrics that count the cost in the body.
    pub(crate) fn counted(self, counted: Option<Arc<RouteMetrics>>) -> Self {
        Self { counted, ..self }
    }

    /// Takes the tunnel that opens after this body.
    pub(crate) const fn take_tunnel(&mut self) -> Option<Box<Tunnel>> {
        match &mut self.content {
            Content::Tunnel(tunnel) => tunnel.take(),
            Content::Whole(_) | Content::Upstream(_) | Content::Ahead(_) | Content::Rpc(_) => None,
        }
    }

    /// Returns an empty body.
    pub(crate) fn empty() -> Self {
        Bytes::new().into()
    }

    /// Returns the bytes of the body if the gateway itself made them.
    pub(crate) const fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole(bytes) => bytes.as_ref(),
            Content::Upstream(_) | Content::Ahead(_) | Content::Tunnel(_) | Content::Rpc(_) => None,
        }
    }

    /// Returns the least rate at which the client must take this body. `own` is the rate for bodies that the gateway itself made.
    pub(crate) const fn least_rate(&self, own: Option<LeastRate>) -> Option<LeastRate> {
        match &self.content {
            Content::Whole(_) | Content::Rpc(_) => own,
            Content::Upstream(_) | Content::Ahead(_) | Content::Tunnel(_) => self.slow,
        }
    }

    /// Returns the side that cuts the upstream's answer short if this body is dropped now. `None` if the answer is complete, or if the body
    /// is not from an upstream.
    pub(crate) fn cut(&self) -> Option<Cut> {
        match &self.content {
            Content::Upstream(body) => body.cut(),
            Content::Ahead(body) => body.cut(),
            Content::Whole(_) | Content::Tunnel(_) | Content::Rpc(_) => None,
        }
    }

    /// Whether the gateway cut off the request's body, because the client sent it too slowly or stopped sending.
    pub(crate) fn is_cut(&self) -> bool {
        match &self.content {
            Content::Upstream(body) => body.is_cut(),
            Content::Ahead(body) => body.is_cut(),
            Content::Whole(_) | Content::Tunnel(_) | Content::Rpc(_) => false,
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self::of(Content::Whole(bytes), None)
    }
}

/// Takes the data about an answer out of its body.
pub(crate) fn take_answered(response: &mut Response<Body>) -> Answered {
    let answered = response.body_mut().answered.take();
    answered.map(|answered| *answered).unwrap_or_default()
}

/// Records the outcome in an answer.
pub(crate) fn note(response: &mut Response<Body>, outcome: ForwardOutcome) {
    Body::answered(response).forwarded = outcome;
}

impl AnswerBody for Body {
    type Forwarded = ForwardOutcome;

    fn answered(response: &mut Response<Self>) -> &mut Answered {
        response.body_mut().answered.get_or_insert_default()
    }

    async fn read_on(mut self, in_flight: InFlight) {
        read_on(&mut self, |part| in_flight.read_step(part)).await;
        let settled = Decided::settle_body(None, &in_flight);
        if let Some((settled, counted)) = settled.zip(self.counted) {
            counted.settled_by_body(&settled);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Upstream(body) => Pin::new(body).poll_frame(context),
            Content::Ahead(body) => Pin::new(body).poll_frame(context),
            Content::Tunnel(_) => Poll::Ready(None),
            Content::Rpc(body) => Pin::new(&mut **body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Upstream(body) => body.is_end_stream(),
            Content::Ahead(body) => body.is_end_stream(),
            Content::Tunnel(_) => true,
            Content::Rpc(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Upstream(body) => body.size_hint(),
            Content::Ahead(body) => body.size_hint(),
            Content::Tunnel(_) => SizeHint::with_exact(0),
            Content::Rpc(body) => body.size_hint(),
        }
    }
}
