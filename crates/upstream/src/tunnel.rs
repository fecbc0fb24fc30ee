//! A tunnel: the two connections of a request that has switched to another protocol. Bytes pass in both directions as fast as each side
//! reads.
//!
//! The gateway does not inspect the bytes, so it cannot end a tunnel with a message of the protocol, such as a close frame of WebSocket.
//! Instead it closes both connections, if possible in a pause, when no bytes are in transit.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf, copy_bidirectional,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::Lease;

/// When the gateway stops, a tunnel ends once no bytes have passed for this time.
const PAUSE: Duration = Duration::from_secs(1);
/// The fraction of the drain time after which a tunnel ends even without a pause. Both sides close in the remaining time.
const LATEST: (u32, u32) = (5, 6);
/// The time in which both sides must close after a tunnel ends.
const LINGER: Duration = Duration::from_secs(3);
/// The time in which both sides must close after a tunnel ends in a pause while the gateway stops. It is shorter than [`LINGER`].
const LAST_LINGER: Duration = Duration::from_secs(1);

/// A tunnel that both sides have agreed to. It opens after the client has received the answer.
#[derive(Debug)]
pub struct Tunnel {
    /// The client's side.
    pub client: OnUpgrade,
    /// The upstream's side.
    pub upstream: OnUpgrade,
    /// The longest time for which both sides may be silent.
    pub idle: Duration,
    /// The drain time of the gateway. When the gateway stops, the tunnel ends after 5/6 of this time at the latest. `None` if only a pause
    /// ends the tunnel.
    pub drain: Option<Duration>,
    /// The upstream's connection, which ends with the tunnel.
    pub lease: Lease,
}

/// Both connections of a tunnel that has ended. A drop closes them.
#[derive(Debug)]
pub struct ClosedTunnel {
    _sides: Option<(TokioIo<Upgraded>, TokioIo<Upgraded>)>,
    _lease: Lease,
}

impl Tunnel {
    /// Carries bytes until both sides have closed, a connection fails, both sides have been silent for too long, or the gateway stops.
    pub async fn run(self, drain: watch::Receiver<bool>) -> ClosedTunnel {
        let mut sides = None;
        // If one side leaves before the tunnel opens, the other side is closed too.
        if let (Ok(client), Ok(upstream)) = tokio::join!(self.client, self.upstream) {
            let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
            let most = self.drain;
            carry(&mut client, &mut upstream, self.idle, most, drain).await;
            sides = Some((client, upstream));
        }
        ClosedTunnel {
            _sides: sides,
            _lease: self.lease,
        }
    }
}

async fn carry<C, U>(
    client: &mut C,
    upstream: &mut U,
    idle: Duration,
    most: Option<Duration>,
    mut drain: watch::Receiver<bool>,
) where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    let moved = Moved {
        opened: Instant::now(),
        last: AtomicU64::new(0),
    };
    // Watching the client's side is enough: bytes of both directions pass it.
    let mut client = Noted {
        inner: client,
        moved: &moved,
    };
    let linger = {
        let mut copying = std::pin::pin!(copy_bidirectional(&mut client, upstream));
        let mut quiet = std::pin::pin!(sleep_until(Instant::now() + idle));
        let mut latest = std::pin::pin!(sleep_until(Instant::now()));
        let mut quiet_limit = idle;
        let mut draining = false;
        loop {
            tokio::select! {
                _ = copying.as_mut() => return,
                () = quiet.as_mut() => {
                    let until = moved.last() + quiet_limit;
                    if until <= Instant::now() {
                        break if draining { LAST_LINGER } else { LINGER };
                    }
                    quiet.as_mut().reset(until);
                }
                stop = drain.wait_for(|stop| *stop), if !draining => {
                    drop(stop);
                    draining = true;
                    quiet_limit = idle.min(PAUSE);
                    quiet.as_mut().reset(moved.last() + quiet_limit);
                    if let Some(most) = most {
                        latest.as_mut().reset(Instant::now() + most * LATEST.0 / LATEST.1);
                    }
                }
                () = latest.as_mut(), if draining && most.is_some() => break LINGER,
            }
        }
    };
    let ending = async { tokio::join!(close(&mut client), close(upstream)) };
    // A side that does not close is cut off.
    let _ = timeout(linger, ending).await;
}

/// Sends the end of the stream, and reads until the other side ends. If bytes were left unread, the other side would get a reset instead of
/// the end.
async fn close<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

/// The time at which bytes last passed.
#[derive(Debug)]
struct Moved {
    opened: Instant,
    // In ms since `opened`.
    last: AtomicU64,
}

impl Moved {
    fn note(&self) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(elapsed, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.opened + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}

/// A stream that records when bytes pass.
struct Noted<'a, S> {
    inner: S,
    moved: &'a Moved,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.moved.note();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.moved.note();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
