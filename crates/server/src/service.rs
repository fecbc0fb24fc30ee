//! What a server serves: how a request is answered, and how a head is that the protocol refused.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{Request, Response};
use http_body::Body;
use tidegate_net::pace::LeastRate;

use crate::activity::RequestGuard;
use crate::client_body::ClientBody;
use crate::connection_info::ConnectionInfo;
use crate::settings::Settings;

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests. A server asks for the current service with each request.
pub trait Service: fmt::Debug + Send + Sync + 'static {
    /// The body of answers.
    type Body: ResponseBody;

    /// What holds for connections.
    fn settings(&self) -> &Settings;

    /// Whether `ip` is a trusted proxy: it speaks for many clients, and its headers are believed.
    fn is_proxy(&self, ip: IpAddr) -> bool;

    /// Whether clients at `ip` are refused, whatever they send. A connection with TLS is then closed before its handshake; requests
    /// without TLS are left to [`call`](Self::call).
    fn denies(&self, _ip: IpAddr) -> bool {
        false
    }

    /// Answers a request.
    ///
    /// The call itself must count the request: hyper drops a future unpolled if the end of the connection directly follows the
    /// head. The request is over when `guard` is dropped.
    ///
    /// # Errors
    ///
    /// The request gets no answer, and its connection or stream ends.
    fn call(
        self: Arc<Self>,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> impl Future<Output = Result<Response<Self::Body>, Dropped>> + Send;

    /// Answers a head that the protocol refused.
    fn refuse_head(
        self: Arc<Self>,
        head: UnparsedHead,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> impl Future<Output = RefusedHead<Self::Body>> + Send;
}

/// The body of an answer.
pub trait ResponseBody: Body<Data = Bytes, Error = BoxError> + Send + Unpin + 'static {
    /// The least rate at which the client must take it; none: any. `own` is that of answers of the gateway's own.
    fn least_rate(&self, own: Option<LeastRate>) -> Option<LeastRate>;

    /// It is cut off, because the client takes it too slowly.
    fn cut(&mut self);
}

/// The error of a service that does not answer. After this error, hyper closes an HTTP/1 connection without an answer, and resets
/// an HTTP/2 stream with the code of the source. No client takes that code for an invitation to try again.
#[derive(Debug, thiserror::Error)]
#[error("the request was dropped")]
pub struct Dropped(#[source] h2::Error);

impl Default for Dropped {
    fn default() -> Self {
        Self(Reason::ENHANCE_YOUR_CALM.into())
    }
}

/// Why a head never became a request: the protocol refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnparsedHead {
    /// Its line or a header is not HTTP/1.
    Malformed,
    /// It is too large.
    HeadTooLarge,
    /// Its target is too long.
    TargetTooLong,
    /// It is no request of HTTP/2, or one that is not served there.
    Http2,
    /// It is a flood of HTTP/2 control frames in place of requests.
    ControlFrames,
}

impl UnparsedHead {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Malformed,
        Self::HeadTooLarge,
        Self::TargetTooLong,
        Self::Http2,
        Self::ControlFrames,
    ];

    /// The word for metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::HeadTooLarge => "head_too_large",
            Self::TargetTooLong => "target_too_long",
            Self::Http2 => "http2",
            Self::ControlFrames => "control_frames",
        }
    }
}

/// What follows a head that was refused.
#[derive(Debug)]
pub struct RefusedHead<B> {
    /// The answer, with a short body; none: the connection ends without one.
    pub response: Option<Response<B>>,
    /// For how long nothing is to be read from this address; none: it may go on.
    pub used_up: Option<Duration>,
}
