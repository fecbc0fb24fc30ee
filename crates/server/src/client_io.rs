//! A client's connection after its handshake, with TLS or without.
//!
//! - [`ClientIo::watch_http1`] withholds the answer that hyper itself writes to an unreadable head.
//! - [`RequestLines`] escapes characters in the targets of requests before hyper reads the targets.
//! - [`ClientIo::end_reading`] ends a connection from the server's side, without waiting for its client.

mod transport;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::activity::Activity;
use crate::client_stream::{put_before, read_first};
use crate::drain::LAST_CALL;
use crate::frames::FrameReader;
use crate::request_lines::RequestLines;
pub(crate) use transport::Transport;

/// The connection from which hyper reads requests, and to which it writes answers.
#[derive(Debug)]
pub(crate) struct ClientIo {
    transport: Transport,
    watch: Watch,
    // Bytes that the next reads return, before any bytes of `transport`.
    first: Bytes,
}

/// The protocol whose bytes are watched.
#[derive(Debug)]
enum Watch {
    Nothing,
    Http1(Http1Watch),
    Http2(Http2Watch),
}

/// Separates answers to requests from bytes that hyper sends on its own.
#[derive(Debug)]
struct Http1Watch {
    activity: Arc<Activity>,
    // The number of requests that had begun when the last answer was sent.
    answered: usize,
    withholds: bool,
    lines: RequestLines,
}

impl Http1Watch {
    /// Whether the bytes that hyper writes now belong to no request: all answers are sent, and no request has begun after the last answer.
    fn withholds(&mut self) -> bool {
        let is_answer = self.activity.has_requests() || self.activity.is_tunnel.is_set();
        self.withholds |= !is_answer && self.answered == self.activity.heads.begun();
        self.withholds
    }

    /// Returns a copy of `bytes` with an escaped target, if `bytes` contain a request line whose target must be escaped. Returns `None` for
    /// all other bytes, such as bodies.
    fn escaped(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self.activity.awaits_head() {
            true => self.lines.read(bytes, self.activity.heads.begun()),
            false => None,
        }
    }

    /// Records that all written bytes are sent.
    fn flushed(&mut self) {
        if !self.activity.has_requests() {
            self.answered = self.activity.heads.begun();
        }
    }
}

/// The frames of the client on an HTTP/2 connection, and whether the last frame of the gateway is complete.
#[derive(Debug)]
struct Http2Watch {
    frames: FrameReader,
    activity: Arc<Activity>,
    // Whether bytes were written after the last flush. If false, the last written frame is complete.
    unflushed: bool,
}

impl ClientIo {
    pub(crate) const fn new(transport: Transport) -> Self {
        Self {
            transport,
            watch: Watch::Nothing,
            first: Bytes::new(),
        }
    }

    /// Watches a connection that speaks HTTP/1. If hyper cannot parse a head, it writes an answer without a body and closes the connection.
    /// [`ClientIo`] drops this answer and keeps the connection open, so that the caller can send an answer with a body.
    pub(crate) fn watch_http1(&mut self, activity: Arc<Activity>) {
        self.watch = Watch::Http1(Http1Watch {
            activity,
            answered: 0,
            withholds: false,
            lines: RequestLines::default(),
        });
    }

    /// Watches a connection that speaks HTTP/2: counts the heads, and bounds the control frames.
    pub(crate) fn watch_http2(&mut self, activity: Arc<Activity>) {
        self.watch = Watch::Http2(Http2Watch {
            frames: FrameReader::default(),
            activity,
            unflushed: false,
        });
    }

    /// Lets all bytes pass from now on. Returns whether an answer was withheld.
    pub(crate) fn write_again(&mut self) -> bool {
        let watch = std::mem::replace(&mut self.watch, Watch::Nothing);
        matches!(watch, Watch::Http1(http1) if http1.withholds)
    }

    fn withholds(&mut self) -> bool {
        match &mut self.watch {
            Watch::Http1(http1) => http1.withholds(),
            Watch::Nothing | Watch::Http2(_) => false,
        }
    }

    /// If an HTTP/2 client has left, returns success for a failed write. After an error, hyper would end at once and drop the heads that it
    /// has read. After a success, hyper ends when it reads the end of the connection.
    fn unless_gone<T>(&self, written: Poll<io::Result<T>>, all: T) -> Poll<io::Result<T>> {
        match (&written, &self.watch) {
            (Poll::Ready(Err(error)), Watch::Http2(http2)) if is_leaving(error) => {
                http2.activity.heads.is_gone.set();
                Poll::Ready(Ok(all))
            }
            _ => written,
        }
    }

    /// Records whether all written bytes are sent.
    fn flushed(&mut self, all: bool) {
        match &mut self.watch {
            Watch::Nothing => {}
            Watch::Http1(http1) if all => http1.flushed(),
            Watch::Http1(_) => {}
            Watch::Http2(http2) => http2.unflushed = !all,
        }
    }

    /// Ends the reads from a silent client when [`Activity::is_last_call_over`] is set.
    ///
    /// Before the HTTP/2 library ends a connection, it waits until the client acknowledges a PING. This function supplies the
    /// acknowledgement, so the library accepts no more requests, completes the open ones, and closes. In the middle of a frame or a head,
    /// no acknowledgement can be inserted. In this case, and in HTTP/1, the reads end once no answer is outstanding.
    fn end_reading(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let activity = match &self.watch {
            Watch::Nothing => return Poll::Pending,
            Watch::Http1(http1) => &http1.activity,
            Watch::Http2(http2) => &http2.activity,
        };
        if !activity.is_last_call_over.is_set() {
            return Poll::Pending;
        }
        let (is_quiet, quiet_for) = (activity.is_quiet(), activity.quiet_for());
        match &mut self.watch {
            Watch::Http2(http2) if http2.frames.is_between_frames() => {
                let Some(ack) = http2.frames.shutdown_ack() else {
                    return Poll::Pending;
                };
                self.first = Bytes::from_static(ack);
                read_first(&mut self.first, buffer);
                Poll::Ready(Ok(()))
            }
            // The reads end only if the connection was quiet for `LAST_CALL`: hyper may not have written the whole last answer to the
            // transport yet.
            _ if is_quiet && quiet_for >= LAST_CALL => Poll::Ready(Ok(())),
            _ => Poll::Pending,
        }
    }

    /// Ends an HTTP/2 connection that sent too many control frames. hyper cannot send a GOAWAY frame with the code `ENHANCE_YOUR_CALM`, so
    /// this function writes the frame, but only if the previous frame is complete and the socket has room.
    fn end_flood(&mut self, context: &mut Context<'_>) -> io::Error {
        if let Watch::Http2(http2) = &self.watch {
            http2.activity.heads.is_flooded.set();
            if !http2.unflushed {
                let goaway = http2.frames.goaway();
                let transport = &mut self.transport;
                if Pin::new(&mut *transport)
                    .poll_write(context, &goaway)
                    .is_ready()
                {
                    let _ = Pin::new(transport).poll_flush(context);
                }
            }
        }
        io::ErrorKind::ConnectionAborted.into()
    }

    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        self.transport.socket()
    }

    /// Whether bytes that were put back are still unread.
    pub(crate) fn has_more(&self) -> bool {
        let is_unread = matches!(&self.transport, Transport::Plain(stream) if stream.has_more());
        is_unread || !self.first.is_empty()
    }

    /// Prepares the connection to rest: frees the timer, which only writes need.
    pub(crate) fn rest(&mut self) {
        self.transport.rest();
    }

    /// Puts back the bytes that were read last. The next read returns them again.
    pub(crate) fn put_back(&mut self, read: Bytes) {
        put_before(&mut self.first, read);
    }
}

/// Whether a write failed because the client has closed the connection.
fn is_leaving(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::BrokenPipe,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::ConnectionAborted,
    ];
    kinds.contains(&error.kind())
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if read_first(&mut this.first, buffer) {
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut this.transport).poll_read(context, buffer);
        if let Watch::Http1(http1) = &mut this.watch
            && let Some(escaped) = http1.escaped(&buffer.filled()[before..])
        {
            buffer.set_filled(before);
            this.first = escaped.into();
            read_first(&mut this.first, buffer);
        }
        if let Watch::Http2(http2) = &mut this.watch {
            let heads = &http2.activity.heads;
            let bytes = &buffer.filled()[before..];
            heads.came(http2.frames.read(bytes));
            if !http2.activity.drains.is_set() {
                http2.frames.forget_shutdown_ack();
            }
            if http2.frames.is_flooded(&http2.activity.allowance) {
                return Poll::Ready(Err(this.end_flood(context)));
            }
            let is_end = match &read {
                Poll::Ready(Ok(())) => bytes.is_empty() && buffer.remaining() > 0,
                Poll::Ready(Err(_)) => true,
                // An earlier read or write has already seen the end.
                Poll::Pending => heads.is_gone.is_set(),
            };
            if is_end && heads.holds_end() {
                // Requests another poll, which reads the same end again.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if is_end && read.is_pending() {
                return Poll::Ready(Ok(()));
            }
        }
        match read {
            Poll::Pending => this.end_reading(buffer),
            ready => ready,
        }
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.withholds() {
            return Poll::Ready(Ok(bytes.len()));
        }
        self.flushed(false);
        let written = Pin::new(&mut self.transport).poll_write(context, bytes);
        self.unless_gone(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.withholds() {
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        self.flushed(false);
        let written = Pin::new(&mut self.transport).poll_write_vectored(context, slices);
        self.unless_gone(written, slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.transport).poll_flush(context);
        if let Poll::Ready(Ok(())) = &flushed {
            this.flushed(true);
        }
        this.unless_gone(flushed, ())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(&this.watch, Watch::Http1(http1) if http1.withholds) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut this.transport).poll_shutdown(context)
    }
}
