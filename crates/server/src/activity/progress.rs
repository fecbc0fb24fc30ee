//! The progress of a client: the bytes of answers that it has acknowledged.

use std::sync::atomic::Ordering;

use tidegate_net::tcp::Sent;
use tokio::time::Instant;

use super::Activity;

/// A wait for the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) since: Instant,
    /// The bytes that the client had acknowledged at the previous look at the socket.
    pub(crate) acknowledged: u64,
}

impl Activity {
    /// Requests a look at the socket when the connection is next polled.
    pub(crate) fn ask(&self) {
        self.asks.set();
    }

    /// Whether a look at the socket is due. A second call returns false.
    pub(crate) fn is_asked(&self) -> bool {
        self.asks.take()
    }

    /// Notes the state of the socket. While the client still takes bytes that were sent, the connection is not idle.
    pub(crate) fn sent(&self, sent: Sent) {
        let before = self
            .acknowledged
            .fetch_max(sent.acknowledged, Ordering::Relaxed);
        if sent.is_waiting && sent.acknowledged > before && !self.is_busy() {
            self.note_idle();
        }
    }

    /// Begins to wait for the client.
    pub(crate) fn wait(&self) -> Wait {
        Wait {
            since: Instant::now(),
            acknowledged: self.acknowledged.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of requests under way. The caller is a request, so it is at least 1.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed).max(1) as u64
    }
}
