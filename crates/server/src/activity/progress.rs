//! The progress of a client: the number of bytes of answers that the client has acknowledged.

use std::sync::atomic::Ordering;

use tidegate_net::tcp::Sent;
use tokio::time::Instant;

use super::Activity;

/// A wait for the client to take bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) since: Instant,
    /// The number of bytes that the client had acknowledged when the TCP state of the socket was last read.
    pub(crate) acknowledged: u64,
}

impl Activity {
    /// Makes the next poll of the connection read the TCP state of the socket.
    pub(crate) fn ask(&self) {
        self.asks.set();
    }

    /// Returns whether [`ask`](Self::ask) was called since the last call of this function.
    pub(crate) fn is_asked(&self) -> bool {
        self.asks.take()
    }

    /// Records the TCP state of the socket. While the client still acknowledges bytes of an answer, the idle timeout begins again.
    pub(crate) fn sent(&self, sent: Sent) {
        let before = self
            .acknowledged
            .fetch_max(sent.acknowledged, Ordering::Relaxed);
        if sent.is_waiting && sent.acknowledged > before && !self.is_busy() {
            self.note_idle();
        }
    }

    /// Begins a wait for the client to take bytes.
    pub(crate) fn wait(&self) -> Wait {
        Wait {
            since: Instant::now(),
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of requests under way. It is at least 1, because the caller is a request.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed).max(1) as u64
    }
}
