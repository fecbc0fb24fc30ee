//! A record of a request: whether it was forwarded, and whether an upstream answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Records whether a request was forwarded, and whether an upstream answered. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct Transmission(Arc<Record>);

#[derive(Debug, Default)]
struct Record {
    // The longest time until the head of the upstream's answer, in ms. 0 if no part of the request was sent.
    longest: AtomicU64,
    is_unanswered: AtomicBool,
}

impl Transmission {
    /// Records that parts of the request may have been sent. `longest` is the longest time that the upstream may take until the head of its
    /// answer.
    pub fn sent(&self, longest: Duration) {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.0.longest.store(millis.max(1), Ordering::Relaxed);
    }

    /// Records that no part of the request was sent.
    pub fn unsent(&self) {
        self.0.longest.store(0, Ordering::Relaxed);
    }

    /// Records that the gateway itself answers the client, because no upstream answered.
    pub fn unanswered(&self) {
        self.0.is_unanswered.store(true, Ordering::Relaxed);
    }

    /// Returns whether parts of the request may have been sent.
    pub fn is_sent(&self) -> bool {
        self.longest().is_some()
    }

    /// Returns whether the gateway answered because no upstream answered.
    pub fn is_unanswered(&self) -> bool {
        self.0.is_unanswered.load(Ordering::Relaxed)
    }

    /// Returns the longest time until the head of the answer, or `None` if no part of the request was sent.
    pub fn longest(&self) -> Option<Duration> {
        let millis = self.0.longest.load(Ordering::Relaxed);
        (millis > 0).then_some(Duration::from_millis(millis))
    }
}
