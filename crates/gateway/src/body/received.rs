//! Receives the parts of a message. If an HTTP/2 stream was reset before its end, the body counts as failed.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};

use tidegate_upstream::BoxError;

/// Reads the next part of a body that hyper receives from a client or an upstream.
///
/// If an HTTP/2 stream or its connection ends with the code `NO_ERROR`, hyper ends the body without an error. Without END_STREAM, the body
/// is not complete (RFC 9113, 8.1), and this function returns an error.
pub(crate) fn poll_received<B>(
    body: &mut B,
    is_http2: bool,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BoxError>>>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let frame = ready!(Pin::new(&mut *body).poll_frame(context));
    if frame.is_none() && is_http2 && !body.is_end_stream() {
        return Poll::Ready(Some(Err("the stream was reset before its end".into())));
    }
    Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
}
