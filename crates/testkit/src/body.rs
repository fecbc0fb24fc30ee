//! Bodies for handlers and requests, all of one type.

use bytes::Bytes;
use http_body_util::{BodyExt, Channel, Empty, Full, channel};
use hyper::body::Body;

/// Any error a body can end with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body that handlers answer with and requests carry.
pub type BoxBody = http_body_util::combinators::BoxBody<Bytes, BoxError>;

/// The writing end of [`channel()`], with `send_data`, `send_trailers` and `abort`. Dropping it ends the body.
pub type Sender = channel::Sender<Bytes, BoxError>;

/// Returns a body without bytes.
pub fn empty() -> BoxBody {
    boxed(Empty::new())
}

/// Returns a body that is complete, and sent with its length.
pub fn full(bytes: impl Into<Bytes>) -> BoxBody {
    boxed(Full::new(bytes.into()))
}

/// Returns a body that the test writes while it is being sent. Its length is not announced.
pub fn channel() -> (Sender, BoxBody) {
    let (sender, body) = Channel::new(1);
    (sender, boxed(body))
}

/// Boxes any other body, for instance hyper's `Incoming`.
pub fn boxed<B>(body: B) -> BoxBody
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Sync + 'static,
{
    body.map_err(Into::into).boxed()
}
