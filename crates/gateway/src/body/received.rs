//! The body of a message that was received: an HTTP/2 stream that is reset never passes for a complete body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use tidegate_upstream::BoxError;

/// A body as hyper receives it, from a client or an upstream.
///
/// hyper ends the body of an HTTP/2 stream without an error if the stream or the connection ends with the code
/// `NO_ERROR`. Such a body is complete only if END_STREAM was received before (RFC 9113, 8.1).
#[derive(Debug)]
pub(crate) struct ReceivedBody<B = Incoming> {
    inner: B,
    is_http2: bool,
}

impl<B> ReceivedBody<B> {
    /// The body of a message of this version.
    pub(crate) fn new(inner: B, version: Version) -> Self {
        let is_http2 = version == Version::HTTP_2;
        Self { inner, is_http2 }
    }
}

impl<B> Body for ReceivedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if frame.is_none() && self.is_http2 && !self.inner.is_end_stream() {
            return Poll::Ready(Some(Err("the stream was reset before its end".into())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
