//! Whether a request was forwarded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Says whether a request was forwarded. It is in the extensions of each request that holds something.
///
/// A service that forwards requests sets it, clears it if nothing was sent after all, and marks an answer of its own with
/// [`Unanswered`](crate::Unanswered). If the client leaves before anything was forwarded, the charge is returned. So is the reservation of
/// a cost that answers tell, if the service answers without having said that it sends the request.
#[derive(Clone, Debug, Default)]
pub struct Transmission(Arc<AtomicU64>);

impl Transmission {
    /// Parts of the request may have been sent. The answer's head takes `longest` at most.
    pub fn sent(&self, longest: Duration) {
        let millis = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.0.store(millis.max(1), Ordering::Relaxed);
    }

    /// Nothing of the request was sent.
    pub fn unsent(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether parts of the request may have been sent.
    pub fn is_sent(&self) -> bool {
        self.longest().is_some()
    }

    /// The longest time that the answer's head takes; none: nothing was sent.
    pub(crate) fn longest(&self) -> Option<Duration> {
        let millis = self.0.load(Ordering::Relaxed);
        (millis > 0).then_some(Duration::from_millis(millis))
    }
}
