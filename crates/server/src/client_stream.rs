//! The client's socket as hyper sees it. Bytes that were read to detect the protocol come first, and reads are noted. A client that
//! takes nothing for too long is cut off. A client that is still sending after its answer gets the time to read the answer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tidegate_net::pace::{Pace, Timer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::activity::Activity;
use crate::connection_limit::ConnectionPermit;
use crate::drain::LAST_CALL;

/// The time in which a client may still send after its last answer. While the server drains, a silent client has [`LAST_CALL`].
const LINGER: Duration = Duration::from_secs(5);
/// The most bytes that are read and dropped meanwhile. The upload of a client that goes on comes to a halt then.
const MOST_DROPPED: usize = 64 * 1024 * 1024;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct ClientStream {
    inner: TcpStream,
    first: Bytes,
    activity: Arc<Activity>,
    timeout: Duration,
    // Counts the connection until the socket is closed.
    _permit: Arc<ConnectionPermit>,
    // Since when a write has waited for the client to take something.
    stalled: Option<Instant>,
    timer: Timer,
    pace: Pace,
    // The gateway has closed its side.
    closed: bool,
    lingering: Option<Lingering>,
}

/// A client may still be sending after its last answer.
#[derive(Debug)]
struct Lingering {
    ends: Instant,
    // When something came last.
    heard: Instant,
    // How many bytes may still be dropped.
    left: usize,
}

impl ClientStream {
    /// A stream over `inner` that fails when a write stalls for `timeout`.
    pub(crate) const fn new(
        inner: TcpStream,
        activity: Arc<Activity>,
        timeout: Duration,
        permit: Arc<ConnectionPermit>,
    ) -> Self {
        Self {
            inner,
            first: Bytes::new(),
            activity,
            timeout,
            _permit: permit,
            stalled: None,
            timer: Timer::new(),
            pace: Pace::new(),
            closed: false,
            lingering: None,
        }
    }

    /// The connection rests: what only writes need is dropped.
    pub(crate) fn rest(&mut self) {
        self.timer = Timer::new();
    }

    /// Puts bytes back that were read last. They are read again.
    pub(crate) fn put_back(&mut self, read: Bytes) {
        put_before(&mut self.first, read);
    }

    /// Whether bytes that were put back wait to be read.
    pub(crate) fn has_more(&self) -> bool {
        self.first.has_remaining()
    }

    /// The socket below.
    pub(crate) const fn socket(&self) -> &TcpStream {
        &self.inner
    }

    fn watch_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            let stalled = self.stalled.take();
            if stalled.is_some() {
                self.activity.write_stalls(false);
            }
            if let (Ok(bytes), Some(least)) = (&written, self.activity.least_rate()) {
                if let Some(since) = stalled {
                    self.pace.waited(since.elapsed());
                }
                self.pace.moved(*bytes as u64, least);
            }
            return Poll::Ready(written);
        }
        self.activity.write_stalls(true);
        ready!(self.poll_late(context));
        self.activity.cut();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ready when the client has taken nothing, or too little, for as long as it may.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.stalled.get_or_insert_with(Instant::now);
        let left = self.activity.least_rate();
        let left = left.map_or(self.timeout, |least| self.pace.left(least));
        self.timer.poll(since + left.min(self.timeout), context)
    }

    /// Reads and drops what still comes, until the client closes too or [`LINGER`] is over. A socket that is closed with bytes
    /// unread resets the connection, and the reset may overtake the answer. The client of a refused upload would not learn why.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [MaybeUninit::uninit(); 4096];
        let lingering = self.lingering.get_or_insert_with(|| {
            let heard = Instant::now();
            let ends = heard + LINGER;
            Lingering {
                ends,
                heard,
                left: MOST_DROPPED,
            }
        });
        loop {
            let mut buffer = ReadBuf::uninit(&mut scratch);
            let read = match lingering.left {
                0 => Poll::Pending,
                _ => Pin::new(&mut self.inner).poll_read(context, &mut buffer),
            };
            if read.is_ready() {
                if buffer.filled().is_empty() {
                    // The client has closed, or is gone.
                    return Poll::Ready(());
                }
                lingering.heard = Instant::now();
                lingering.left = lingering.left.saturating_sub(buffer.filled().len());
            }
            let ends = match self.activity.drains() {
                true => lingering.ends.min(lingering.heard + LAST_CALL),
                false => lingering.ends,
            };
            if self.timer.poll(ends, context).is_ready() {
                return Poll::Ready(());
            }
            if read.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// Puts bytes before others that wait to be read.
pub(crate) fn put_before(first: &mut Bytes, read: Bytes) {
    *first = match first.is_empty() {
        true => read,
        false => [&read[..], &first[..]].concat().into(),
    };
}

/// Reads bytes that wait, if there are any.
pub(crate) fn read_first(first: &mut Bytes, buffer: &mut ReadBuf<'_>) -> bool {
    let waits = first.has_remaining();
    if waits {
        let length = first.len().min(buffer.remaining());
        buffer.put_slice(&first.split_to(length));
    }
    waits
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if read_first(&mut self.first, buffer) {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.read();
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.close();
        if !self.closed {
            ready!(Pin::new(&mut self.inner).poll_shutdown(context))?;
            self.closed = true;
        }
        if self.activity.is_tunnel() {
            // What still comes is for the other side.
            return Poll::Ready(Ok(()));
        }
        self.poll_linger(context).map(Ok)
    }
}
