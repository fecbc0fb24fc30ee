//! Heads of requests on one connection: how many the client sent, and how many became requests. The others were refused by hyper,
//! which answers or resets them by itself.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::flag::Flag;

/// The heads of one connection.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// The connection shuts down: heads that still come get no answer, and are not charged.
    pub(crate) leaves: Flag,
    /// The client has left, so no answer is waited for; of HTTP/2.
    pub(crate) is_gone: Flag,
    /// The connection ends because the client has sent too many control frames; of HTTP/2.
    pub(crate) is_flooded: Flag,
    read: AtomicUsize,
    begun: AtomicUsize,
    charged: AtomicUsize,
    end_is_due: Flag,
}

impl Heads {
    /// So many heads came whole.
    pub(crate) fn came(&self, count: usize) {
        self.read.fetch_add(count, Ordering::Relaxed);
    }

    /// One of them became a request.
    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// How many became requests.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    /// The end of an HTTP/2 connection was read. Returns whether the protocol has to wait for it until the connection is polled
    /// again. At the end, the protocol forgets the heads that it has read and not handed over.
    pub(crate) fn holds_end(&self) -> bool {
        self.is_gone.set();
        !self.end_is_due.is_set() && self.unknown() > 0
    }

    /// The connection is polled. An end that was read before has waited long enough.
    pub(crate) fn poll(&self) {
        if self.is_gone.is_set() {
            self.end_is_due.set();
        }
    }

    /// How many heads neither became requests nor were taken as refused.
    fn unknown(&self) -> usize {
        let known = self.begun() + self.charged.load(Ordering::Relaxed);
        self.read.load(Ordering::Relaxed).saturating_sub(known)
    }

    /// Whether none was taken that became no request.
    pub(crate) fn none_refused(&self) -> bool {
        self.charged.load(Ordering::Relaxed) == 0
    }

    /// How many became no request, and were not taken here before.
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
