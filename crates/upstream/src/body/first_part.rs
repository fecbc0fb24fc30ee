//! The first part of a body, which the gateway reads before the request takes a place at a server.
//!
//! Therefore a client that sends its first part slowly holds no place in the meantime. Bodies of unknown length are excluded: the client of
//! a stream may wait for the upstream's answer before it sends more.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;

use super::memory::{BufferMemory, Buffered};
use super::{BoxError, RequestBody, StreamingBody, size_behind};

/// The most bytes of a body that are read before the request has a place, counting [`PER_FRAME`] for each frame. The frame that reaches the
/// bound is read whole.
const MAX_FIRST: usize = 16 * 1024;

/// The estimated bytes of memory that each frame takes in addition to its data.
const PER_FRAME: usize = 64;

/// A body whose first part was read.
struct FirstPart {
    frames: VecDeque<Frame<Bytes>>,
    bytes: usize,
    rest: StreamingBody,
    has_ended: bool,
    memory: Option<Buffered>,
}

/// Reads the first part of a body of known length, or all of a short body. Reads no part if the memory for first parts is used up.
///
/// # Errors
///
/// Returns the error of a body that broke off while its first part was read.
pub(crate) async fn read(
    request: &mut Request<RequestBody>,
    memory: &Arc<BufferMemory>,
) -> Result<(), BoxError> {
    let RequestBody::Streaming(body) = request.body() else {
        return Ok(());
    };
    let Some(length) = body.size_hint().exact() else {
        return Ok(());
    };
    let length = usize::try_from(length).unwrap_or(MAX_FIRST);
    let most = length.saturating_add(PER_FRAME).min(MAX_FIRST);
    let Some(memory) = memory.take(most) else {
        return Ok(());
    };
    let RequestBody::Streaming(rest) = std::mem::take(request.body_mut()) else {
        return Ok(());
    };
    let mut body = FirstPart {
        frames: VecDeque::new(),
        bytes: 0,
        rest,
        has_ended: false,
        memory: Some(memory),
    };
    let mut held = 0;
    while held < most && !body.rest.is_end_stream() {
        let Some(frame) = body.rest.frame().await.transpose()? else {
            body.has_ended = true;
            break;
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        body.bytes += bytes;
        held += bytes + PER_FRAME;
        body.frames.push_back(frame);
    }
    *request.body_mut() = RequestBody::Streaming(Box::new(body));
    Ok(())
}

impl Body for FirstPart {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = self.frames.pop_front() {
            self.bytes -= frame.data_ref().map_or(0, Bytes::len);
            if self.frames.is_empty() {
                self.frames = VecDeque::new();
                self.memory = None;
            }
            return Poll::Ready(Some(Ok(frame)));
        }
        if self.has_ended {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.rest).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && (self.has_ended || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        size_behind(self.bytes as u64, &self.rest.size_hint())
    }
}
