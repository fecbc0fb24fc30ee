//! How many requests an HTTP/2 connection to an upstream takes at once.
//!
//! A server says so in its SETTINGS. hyper tells the number only to whoever polls the connection's driver, and polls the
//! driver only for requests. So the socket is watched, and the driver is woken when hyper has read the SETTINGS.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Requests that one HTTP/2 connection may have open, if the server does not say fewer.
pub(crate) const MAX_STREAMS: usize = 100;

/// The number that hyper starts with and replaces when the server's SETTINGS come. No server says this one.
pub(crate) const NO_SETTINGS: usize = i32::MAX as usize - 1;

/// Requests that a connection takes before its server's SETTINGS have come.
const BEFORE_SETTINGS: usize = 1;

/// The server's bound on concurrent streams, as far as the driver of the connection knows it.
#[derive(Debug)]
pub(crate) struct StreamLimit {
    most: AtomicUsize,
    known: AtomicBool,
    answered: AtomicBool,
    changed: Notify,
    driver: Mutex<Option<Waker>>,
}

impl StreamLimit {
    /// The limit of a connection whose SETTINGS have not been received.
    pub(crate) fn new() -> Self {
        Self {
            most: AtomicUsize::new(BEFORE_SETTINGS),
            known: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            changed: Notify::new(),
            driver: Mutex::default(),
        }
    }

    /// The most requests at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Whether the server's SETTINGS have been received.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Takes over the number that hyper has now. To be called from within the connection's driver.
    pub(crate) fn observe(&self, most: impl Fn() -> usize, context: &Context<'_>) {
        if !self.is_known() {
            // Before the number is read: what comes later wakes.
            *self.driver.lock() = Some(context.waker().clone());
        }
        let most = most();
        // An answer comes after the SETTINGS, whatever they said.
        if most == NO_SETTINGS && !self.answered.load(Ordering::Acquire) {
            return;
        }
        self.most.store(most.min(MAX_STREAMS), Ordering::Relaxed);
        self.note_known();
    }

    /// Notes that an answer has come.
    pub(crate) fn answered(&self) {
        if !self.is_known() {
            self.answered.store(true, Ordering::Release);
            self.wake_driver();
        }
    }

    /// Notes that the connection has ended: no SETTINGS come any more.
    pub(crate) fn ended(&self) {
        self.note_known();
    }

    /// Waits until the server's SETTINGS have been received, or the connection has ended.
    pub(crate) async fn known(&self) {
        let mut changed = pin!(self.changed.notified());
        changed.as_mut().enable();
        if !self.is_known() {
            changed.await;
        }
    }

    fn note_known(&self) {
        if !self.known.swap(true, Ordering::AcqRel) {
            self.changed.notify_waiters();
        }
    }

    fn wake_driver(&self) {
        let driver = self.driver.lock().take();
        driver.into_iter().for_each(Waker::wake);
    }
}

/// The socket of an HTTP/2 connection. It wakes the driver when hyper writes after it has read, until the SETTINGS are known. When
/// hyper has taken them over, it acknowledges them.
#[derive(Debug)]
pub(crate) struct SettingsWatch<S> {
    inner: S,
    limit: Arc<StreamLimit>,
    has_read: bool,
}

impl<S> SettingsWatch<S> {
    /// Watches `inner` for the SETTINGS that `limit` lacks.
    pub(crate) const fn new(inner: S, limit: Arc<StreamLimit>) -> Self {
        Self {
            inner,
            limit,
            has_read: false,
        }
    }

    fn note_write(&self) {
        if self.has_read && !self.limit.is_known() {
            self.limit.wake_driver();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SettingsWatch<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        self.has_read |= !buffer.filled().is_empty();
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SettingsWatch<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.note_write();
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.note_write();
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
