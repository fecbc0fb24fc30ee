//! The reason why an upstream gave no answer, and the classification of hyper's errors.

use std::io;
use std::time::Duration;

use tidegate_net::text::sources;

use super::body::BoxError;
use super::server::connection::ConnectError;

/// The reason why no answer came.
#[derive(Debug)]
pub enum SendError {
    /// No server is usable, and the upstream has health checks. Holds the pause between two checks, after which a server may be usable
    /// again.
    Down(Duration),
    /// No place at a server became free in time.
    Busy,
    /// The client's body broke off before any part of the request was sent to a server.
    Unread(BoxError),
    /// No server accepted a connection. Holds the error of the last server.
    Unconnected(ConnectError),
    /// The server refused the request without processing it, and the request could not be repeated.
    Refused(hyper::Error),
    /// This machine has no free descriptor, port or memory for another connection.
    Exhausted,
    /// A server accepted the request and then failed.
    Failed(hyper::Error),
    /// A server accepted the request and did not answer in time.
    Silent,
}

impl SendError {
    /// Returns the word for traces.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Down(_) => "down",
            Self::Busy => "busy",
            Self::Unread(_) => "unread",
            Self::Unconnected(_) => "unreachable",
            Self::Refused(_) => "refused",
            Self::Exhausted => "exhausted",
            Self::Failed(_) => "failed",
            Self::Silent => "timeout",
        }
    }
}

/// Whether an HTTP/2 server reports that it did not process a request (RFC 9113, 8.7).
pub(super) fn is_refused(error: &hyper::Error) -> bool {
    http2_error(error).is_some_and(|error| {
        let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
        // GOAWAY names the last request that the server processes. Later requests end with this error.
        error.is_remote() && (refused || error.is_go_away())
    })
}

/// Whether the server closed the connection before it answered.
pub(super) fn is_closed(error: &hyper::Error) -> bool {
    let io = match http2_error(error) {
        Some(error) => error.get_io(),
        None => std::error::Error::source(error).and_then(|error| error.downcast_ref()),
    };
    error.is_incomplete_message()
        || io.is_some_and(|error: &io::Error| {
            matches!(
                error.kind(),
                io::ErrorKind::ConnectionReset
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof
            )
        })
}

/// Whether an error ends one HTTP/2 stream and not its connection.
pub(super) fn is_of_stream(error: &hyper::Error) -> bool {
    http2_error(error).is_some_and(h2::Error::is_reset)
}

fn http2_error(error: &hyper::Error) -> Option<&h2::Error> {
    sources(error).find_map(|error| error.downcast_ref())
}
