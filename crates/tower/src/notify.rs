//! The thresholds of a limit's budgets, and the receiver of their events.

use std::fmt;
use std::sync::Arc;

use http::Uri;

/// The thresholds of a limit, and the receiver of its events.
#[derive(Debug)]
pub struct Notify {
    /// The thresholds in percent of the capacity, 1 to 100, in ascending order; 1 to 8 thresholds.
    pub at: Box<[u8]>,
    /// The receiver. `None` if events are only logged.
    pub webhook: Option<Arc<Webhook>>,
}

/// The receiver of events.
#[derive(PartialEq, Eq, Hash)]
pub struct Webhook {
    /// The URL that gets each event by POST.
    pub url: Uri,
    /// The key of the signatures.
    pub key: Box<[u8]>,
}

// Written by hand, because neither the key nor the URL, whose query may have a secret, may be shown.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").finish_non_exhaustive()
    }
}
