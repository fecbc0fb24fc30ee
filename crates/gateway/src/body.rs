//! The one body of responses: a few bytes of ours, what an upstream streams, or none, behind which a tunnel opens.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::proxy::{Tunnel, UpstreamBody};
use crate::request_end::RequestEnd;
use tidegate_net::pace::LeastRate;
use tidegate_server::ResponseBody;
use tidegate_upstream::BoxError;

/// A response's body; when it has been sent, or given up, the request is over.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    slow: Option<LeastRate>,
    // Dropped with the body, which is how the end of a request is noticed.
    end: Option<RequestEnd>,
}

#[derive(Debug)]
enum Content {
    Whole(Option<Bytes>),
    Upstream(UpstreamBody),
    Tunnel(Option<Box<Tunnel>>),
}

impl Body {
    /// Streams what an upstream sends, to a client that must take it at this rate.
    pub(crate) fn upstream(body: UpstreamBody, slow: Option<LeastRate>) -> Self {
        Self {
            content: Content::Upstream(body),
            slow,
            end: None,
        }
    }

    /// Nothing; what comes next is no HTTP.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self {
            content: Content::Tunnel(Some(Box::new(tunnel))),
            slow: None,
            end: None,
        }
    }

    /// The tunnel that opens behind it, to whoever asks first.
    pub(crate) const fn take_tunnel(&mut self) -> Option<Box<Tunnel>> {
        match &mut self.content {
            Content::Tunnel(tunnel) => tunnel.take(),
            Content::Whole(_) | Content::Upstream(_) => None,
        }
    }

    /// Nothing.
    pub(crate) fn empty() -> Self {
        Bytes::new().into()
    }

    /// What it holds, if that is a few bytes of ours.
    pub(crate) const fn whole(&self) -> Option<&Bytes> {
        match &self.content {
            Content::Whole(bytes) => bytes.as_ref(),
            Content::Upstream(_) | Content::Tunnel(_) => None,
        }
    }

    /// Ties the end of the request to the end of this body.
    pub(crate) fn ends(&mut self, end: RequestEnd) {
        self.end = Some(end);
    }
}

impl ResponseBody for Body {
    fn least_rate(&self) -> Option<LeastRate> {
        self.slow
    }

    fn cut(&mut self) {
        self.end.iter_mut().for_each(RequestEnd::too_slow);
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            content: Content::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            slow: Some(LeastRate::default()),
            end: None,
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
        let frame = match &mut self.content {
            Content::Whole(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Content::Upstream(body) => {
                let frame = ready!(Pin::new(&mut *body).poll_frame(context));
                let is_cut = matches!(frame, Some(Err(_))) && body.is_cut();
                if is_cut {
                    self.cut();
                }
                frame
            }
            Content::Tunnel(_) => None,
        };
        if let Some((Ok(frame), end)) = frame.as_ref().zip(self.end.as_mut())
            && let Some(data) = frame.data_ref()
        {
            end.sent(data.len() as u64);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.is_none(),
            Content::Upstream(body) => body.is_end_stream(),
            Content::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Upstream(body) => body.size_hint(),
            Content::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}
