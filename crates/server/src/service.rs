//! The service of a server: it answers requests, and request heads that the HTTP parser refused.

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
use crate::settings::ConnectionSettings;

/// Any error of a body.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests. The server loads the current service again for each request.
pub trait Service: fmt::Debug + Send + Sync + 'static {
    /// The body of answers.
    type Body: ResponseBody;

    /// Returns the settings that apply to connections.
    fn settings(&self) -> &ConnectionSettings;

    /// Whether `ip` is a trusted proxy: it connects for many clients, and its headers are trusted.
    fn is_proxy(&self, ip: IpAddr) -> bool;

    /// Whether all requests of clients at `ip` are denied. If so, a connection to a listener with TLS is closed before its handshake. On a
    /// listener without TLS, [`call`](Self::call) has to refuse the requests.
    fn denies(&self, _ip: IpAddr) -> bool {
        false
    }

    /// Answers a request.
    ///
    /// The call itself must count the request: if the connection ends right after the head, hyper drops the future without a poll. The
    /// request is over when `guard` is dropped.
    ///
    /// # Errors
    ///
    /// After an error, the request gets no answer, and its connection or stream ends.
    fn call(
        self: Arc<Self>,
        request: Request<ClientBody>,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> impl Future<Output = Result<Response<Self::Body>, Dropped>> + Send;

    /// Answers a head that the HTTP parser refused.
    fn refuse_head(
        self: Arc<Self>,
        head: UnparsedHead,
        connection: ConnectionInfo,
        guard: RequestGuard,
    ) -> impl Future<Output = RefusedHead<Self::Body>> + Send;
}

/// The body of an answer.
pub trait ResponseBody: Body<Data = Bytes, Error = BoxError> + Send + Unpin + 'static {
    /// Returns the least rate at which the client must take the body; `None` if any rate is allowed. `own` is the least rate for answers
    /// that the gateway itself generates.
    fn least_rate(&self, own: Option<LeastRate>) -> Option<LeastRate>;

    /// Cuts the body off, because the client takes it too slowly.
    fn cut(&mut self);
}

/// The error of a service that does not answer. After this error, hyper closes an HTTP/1 connection without an answer. It resets an HTTP/2
/// stream with the code ENHANCE_YOUR_CALM, after which clients do not retry.
#[derive(Debug, thiserror::Error)]
#[error("the request was dropped")]
pub struct Dropped(#[source] h2::Error);

impl Default for Dropped {
    fn default() -> Self {
        Self(Reason::ENHANCE_YOUR_CALM.into())
    }
}

/// The reason why the HTTP parser refused a head, or why the server ended an HTTP/2 connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnparsedHead {
    /// The request line or a header is not valid in HTTP/1.
    Malformed,
    /// The head is too large.
    HeadTooLarge,
    /// The target in the request line is too long.
    TargetTooLong,
    /// The head is not a valid HTTP/2 request, or the server does not serve such a request over HTTP/2.
    Http2,
    /// The client sent more HTTP/2 control frames than its requests and answers allow.
    ControlFrames,
}

impl UnparsedHead {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 5] = [
        Self::Malformed,
        Self::HeadTooLarge,
        Self::TargetTooLong,
        Self::Http2,
        Self::ControlFrames,
    ];

    /// Returns the word for metrics.
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

/// The answer to a refused head, and the time for which further connections from the head's address are closed unread.
#[derive(Debug)]
pub struct RefusedHead<B> {
    /// The answer, with a short body; `None` if the connection ends without an answer.
    pub response: Option<Response<B>>,
    /// The time for which connections from the address are closed unread; `None` if the address has not used up a limit.
    pub used_up: Option<Duration>,
}
