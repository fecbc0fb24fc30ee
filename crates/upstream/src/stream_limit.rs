//! The bound on concurrent requests on an HTTP/2 connection to a server.
//!
//! A server sends this bound in its SETTINGS. Only the task that drives the connection can read the bound, and hyper does not wake that
//! task after it has read the SETTINGS. So the socket is watched, and its watch wakes the task.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::interim::{Frames, Heads};
use super::watched::Watch;

/// The most open requests on one HTTP/2 connection, unless the server allows fewer.
pub(crate) const MAX_STREAMS: usize = 100;

/// The bound that hyper starts with, until the server's SETTINGS replace it. No server sends this number, so another value shows that the
/// SETTINGS have come.
pub(crate) const NO_SETTINGS: usize = i32::MAX as usize - 1;

/// The most requests on a connection before the server's SETTINGS come.
const BEFORE_SETTINGS: usize = 1;

/// The server's bound on concurrent streams, as last read from the driver of the connection.
#[derive(Debug)]
pub(crate) struct StreamLimit {
    most: AtomicUsize,
    /// The HEADERS frames that the server may still send.
    pub(crate) heads: Heads,
    is_known: AtomicBool,
    answered: AtomicBool,
    changed: Notify,
    driver: Mutex<Option<Waker>>,
}

impl StreamLimit {
    /// Returns the limit of a new connection, before the server's SETTINGS.
    pub(crate) fn new() -> Self {
        Self {
            most: AtomicUsize::new(BEFORE_SETTINGS),
            heads: Heads::default(),
            is_known: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            changed: Notify::new(),
            driver: Mutex::default(),
        }
    }

    /// Returns the most concurrent requests.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// Whether the server's SETTINGS have been received.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    /// Stores hyper's current bound on streams. Must be called inside the task that drives the connection.
    pub(crate) fn observe(&self, most: impl Fn() -> usize, context: &Context<'_>) {
        if !self.is_known() {
            // The waker is stored before the bound is read, so SETTINGS that come in between wake the driver.
            *self.driver.lock() = Some(context.waker().clone());
        }
        let most = most();
        // An answer shows that the SETTINGS have come, even if they contain no bound on streams.
        if most == NO_SETTINGS && !self.answered.load(Ordering::Acquire) {
            return;
        }
        self.most.store(most.min(MAX_STREAMS), Ordering::Relaxed);
        self.end_wait();
    }

    /// Records that an answer has come.
    pub(crate) fn answered(&self) {
        if !self.is_known() {
            self.answered.store(true, Ordering::Release);
            self.wake_driver();
        }
    }

    /// Waits until the server's SETTINGS have been received, or the connection has ended.
    pub(crate) async fn wait_for_settings(&self) {
        let mut changed = pin!(self.changed.notified());
        changed.as_mut().enable();
        if !self.is_known() {
            changed.await;
        }
    }

    pub(crate) fn end_wait(&self) {
        if !self.is_known.swap(true, Ordering::AcqRel) {
            self.changed.notify_waiters();
        }
    }

    fn wake_driver(&self) {
        let driver = self.driver.lock().take();
        driver.into_iter().for_each(Waker::wake);
    }
}

/// The watch on the socket of an HTTP/2 connection. Until the SETTINGS have come, a write after a read wakes the driver, because hyper
/// writes an acknowledgement after it has applied the SETTINGS.
#[derive(Debug)]
pub(crate) struct SettingsWatch {
    limit: Arc<StreamLimit>,
    has_read: bool,
    frames: Frames,
}

impl SettingsWatch {
    /// Returns a watch that waits for the SETTINGS of `limit`.
    pub(crate) fn new(limit: Arc<StreamLimit>) -> Self {
        Self {
            limit,
            has_read: false,
            frames: Frames::default(),
        }
    }
}

impl Watch for SettingsWatch {
    fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.has_read |= !bytes.is_empty();
        self.frames.read(bytes, &self.limit.heads)
    }

    fn write(&self) {
        if self.has_read && !self.limit.is_known() {
            self.limit.wake_driver();
        }
    }
}
