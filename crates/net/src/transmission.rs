//! Whether a request was forwarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Records whether a request was forwarded. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct Transmission(Arc<AtomicU64>);

impl Transmission {
    /// Records that parts of the request may have been sent. The head of the answer takes `longest` at most.
    pub fn sent(&self, longest: Duration) {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis.max(1), Ordering::Relaxed);
    }

    /// Records that no part of the request was sent.
    pub fn unsent(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns whether parts of the request may have been sent.
    pub fn is_sent(&self) -> bool {
        self.longest().is_some()
    }

    /// Returns the longest time that the head of the answer takes; none if no part of the request was sent.
    pub fn longest(&self) -> Option<Duration> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis > 0).then_some(Duration::from_millis(millis))
    }
}
