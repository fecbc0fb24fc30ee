//! The client's socket, which hyper reads and writes. The first reads return the bytes that were read to detect the protocol. A client that
//! is still sending when its last answer was written gets time to read the answer.
//!
//! A client that takes its answer too slowly is cut off. The gateway counts the bytes that the client's TCP stack has acknowledged: the
//! room in the socket's buffer would show progress only in steps of up to a third of the buffer. The gateway reads the number of
//! acknowledged bytes from the system only while a write waits.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use tidegate_net::pace::{LeastRate, Pace, Timer};
use tidegate_net::tcp::{self, Sent};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::activity::{Activity, Wait};
use crate::connection_limit::ConnectionPermit;
use crate::drain::LAST_CALL;

/// The time for which a client may still send after its last answer. If the client still takes the answer at the end of this time, the time
/// begins again. While the server drains, a client that sends no bytes has only [`LAST_CALL`].
const LINGER: Duration = Duration::from_secs(5);
/// The most bytes that are read and dropped after the last answer. Further bytes are not read, so the client's upload stalls.
const MOST_DROPPED: usize = 64 * 1024 * 1024;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct ClientStream {
    pub(crate) socket: TcpStream,
    first: Bytes,
    activity: Arc<Activity>,
    // Counts the connection until the socket is closed.
    _permit: Arc<ConnectionPermit>,
    // A write that waits until the client takes bytes.
    stalled: Option<Wait>,
    timer: Timer,
    pace: Pace,
    // Whether the gateway has closed its side.
    closed: bool,
    lingering: Option<Lingering>,
}

/// The state of a connection whose client may still send after its last answer.
#[derive(Debug)]
struct Lingering {
    ends: Instant,
    // The time when the client last sent bytes.
    heard: Instant,
    // The number of bytes that may still be read and dropped.
    left: usize,
}

impl Lingering {
    fn new() -> Self {
        let heard = Instant::now();
        Self {
            ends: heard + LINGER,
            heard,
            left: MOST_DROPPED,
        }
    }

    /// Begins the time [`LINGER`] again.
    fn prolong(&mut self) {
        self.heard = Instant::now();
        self.ends = self.heard + LINGER;
    }
}

impl ClientStream {
    /// Returns a stream over `socket` that fails if the client takes an answer more slowly than the least rate.
    pub(crate) fn new(
        socket: TcpStream,
        activity: Arc<Activity>,
        permit: Arc<ConnectionPermit>,
    ) -> Self {
        Self {
            socket,
            first: Bytes::new(),
            activity,
            _permit: permit,
            stalled: None,
            timer: Timer::default(),
            pace: Pace::default(),
            closed: false,
            lingering: None,
        }
    }

    /// Prepares the connection to rest: frees the timer, which only writes need.
    pub(crate) fn rest(&mut self) {
        self.timer = Timer::default();
    }

    /// Puts back the bytes that were read last. The next read returns them again.
    pub(crate) fn put_back(&mut self, read: Bytes) {
        put_before(&mut self.first, read);
    }

    /// Whether bytes that were put back are still unread.
    pub(crate) fn has_more(&self) -> bool {
        self.first.has_remaining()
    }

    fn watch_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = written {
            let stalled = self.stalled.take();
            if stalled.is_some() {
                self.activity.write_stalls.put(false);
            }
            if let (Ok(bytes), Some(least)) = (&written, self.activity.least_rate()) {
                if let Some(wait) = stalled {
                    self.pace.waited(wait.since.elapsed());
                }
                self.pace.moved(*bytes as u64, least);
            }
            return Poll::Ready(written);
        }
        self.activity.write_stalls.set();
        ready!(self.poll_late(context));
        self.activity.is_cut.set();
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ready when the client has been behind the least rate for too long.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let wait = *self.stalled.get_or_insert_with(|| self.activity.wait());
            let Some(least) = self.activity.least_rate() else {
                return Poll::Pending;
            };
            let look = wait.since + self.pace.look(least);
            ready!(self.timer.poll(look, context));
            self.look();
            let now = self.activity.wait();
            self.pace.waited(now.since - wait.since);
            self.pace.moved(now.acknowledged - wait.acknowledged, least);
            self.stalled = Some(now);
            if self.pace.left(least).is_zero() {
                return Poll::Ready(());
            }
        }
    }

    /// Reads the TCP state of the socket, and records the number of bytes that the client has acknowledged.
    fn look(&self) -> Option<Sent> {
        let sent = tcp::sent(&self.socket)?;
        self.activity.sent(sent);
        Some(sent)
    }

    /// Whether the client still takes the answer: some bytes are not acknowledged yet, and since the last check the client has acknowledged
    /// bytes at the default least rate or faster.
    fn is_taking(&self) -> bool {
        let before = self.activity.wait().acknowledged;
        let least = LINGER.as_secs() * LeastRate::default().rate.get();
        self.look()
            .is_some_and(|sent| sent.is_waiting && sent.acknowledged >= before + least)
    }

    /// Reads and drops further bytes, until the client closes its side or [`LINGER`] is over. If unread bytes were left, the close would
    /// reset the connection, and the reset may overtake the answer. In that case, the client of a refused upload would not see the reason.
    fn poll_linger(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [MaybeUninit::uninit(); 4096];
        loop {
            let lingering = self.lingering.get_or_insert_with(Lingering::new);
            let mut buffer = ReadBuf::uninit(&mut scratch);
            let read = match lingering.left {
                0 => Poll::Pending,
                _ => Pin::new(&mut self.socket).poll_read(context, &mut buffer),
            };
            if read.is_ready() {
                if buffer.filled().is_empty() {
                    // The client has closed, or the read has failed.
                    return Poll::Ready(());
                }
                lingering.heard = Instant::now();
                lingering.left = lingering.left.saturating_sub(buffer.filled().len());
            }
            let ends = match self.activity.drains.is_set() {
                true => lingering.ends.min(lingering.heard + LAST_CALL),
                false => lingering.ends,
            };
            if self.timer.poll(ends, context).is_ready() {
                if !self.is_taking() {
                    return Poll::Ready(());
                }
                self.lingering.iter_mut().for_each(Lingering::prolong);
                continue;
            }
            if read.is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// Puts bytes in front of the bytes in `first`.
pub(crate) fn put_before(first: &mut Bytes, read: Bytes) {
    *first = match first.is_empty() {
        true => read,
        false => [&read[..], &first[..]].concat().into(),
    };
}

/// Moves bytes from `first` to the buffer. Returns false if `first` is empty.
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
        if self.activity.is_asked() && self.look().is_some_and(|sent| sent.is_gone) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
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
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.watch_write(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.is_closed.set();
        if !self.closed {
            ready!(Pin::new(&mut self.socket).poll_shutdown(context))?;
            self.closed = true;
        }
        if self.activity.is_tunnel.is_set() {
            // Does not drop further bytes: in a tunnel they belong to the other side.
            return Poll::Ready(Ok(()));
        }
        self.poll_linger(context).map(Ok)
    }
}
