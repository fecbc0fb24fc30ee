//! Counts the heads of requests on one connection, and the heads that became requests. hyper refuses all other heads: it answers them or
//! resets their streams itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::flag::Flag;

/// The heads of one connection.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Set when the connection shuts down. Later heads get no answer, and are not charged for.
    pub(crate) leaves: Flag,
    /// Set when the client of an HTTP/2 connection has closed it, so no answer can reach the client.
    pub(crate) is_gone: Flag,
    /// Set when an HTTP/2 connection ends because of too many control frames.
    pub(crate) is_flooded: Flag,
    read: AtomicUsize,
    begun: AtomicUsize,
    charged: AtomicUsize,
    end_is_due: Flag,
}

impl Heads {
    /// Adds `count` complete heads that were read.
    pub(crate) fn came(&self, count: usize) {
        self.read.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds a head that became a request.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of heads that became requests.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// Records that the end of an HTTP/2 connection was read. Returns whether the HTTP/2 library must get the end only at the next poll.
    /// When the library reads the end, it drops the heads that it has not passed on yet.
    pub(crate) fn holds_end(&self) -> bool {
        self.is_gone.set();
        !self.end_is_due.is_set() && self.unknown() > 0
    }

    /// Records a poll of the connection. If the end of the connection was read before this poll, [`holds_end`](Self::holds_end) does not
    /// delay it again.
    pub(crate) fn poll(&self) {
        if self.is_gone.is_set() {
            self.end_is_due.set();
        }
    }

    /// Returns the number of heads that neither became requests nor were charged for.
    fn unknown(&self) -> usize {
        let others = self.begun() + self.charged.load(Ordering::Relaxed);
        self.read.load(Ordering::Relaxed).saturating_sub(others)
    }

    /// Whether no head was charged for yet.
    pub(crate) fn none_refused(&self) -> bool {
        self.charged.load(Ordering::Relaxed) == 0
    }

    /// Returns the number of heads that became no request. Each head is counted in one call only.
    pub(crate) fn take_refused(&self) -> usize {
        if self.leaves.is_set() {
            return 0;
        }
        let refused = self.unknown();
        if refused > 0 {
            self.charged.fetch_add(refused, Ordering::Relaxed);
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_no_request_is_taken_once() {
        let heads = Heads::default();
        heads.came(3);
        heads.begin();
        assert_eq!([heads.take_refused(), heads.take_refused()], [2, 0]);
        heads.came(1);
        heads.leaves.set();
        assert_eq!(heads.take_refused(), 0);
    }
}
