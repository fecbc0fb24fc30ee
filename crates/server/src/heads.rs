//! Heads of requests on one connection: how many the client sent, and how many became requests. The others were refused by hyper,
//! which answers or resets them by itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The heads of one connection.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    read: AtomicUsize,
    begun: AtomicUsize,
    charged: AtomicUsize,
    leaves: AtomicBool,
    gone: AtomicBool,
    flooded: AtomicBool,
    end_is_due: AtomicBool,
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

    /// The client has left; of HTTP/2.
    pub(crate) fn left(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// The connection shuts down: heads that still come get no answer, and are not charged.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Relaxed);
    }

    /// The end of an HTTP/2 connection was read. Returns whether the protocol has to wait for it until the connection is polled
    /// again. At the end, the protocol forgets the heads that it has read and not handed over.
    pub(crate) fn holds_end(&self) -> bool {
        self.left();
        !self.end_is_due.load(Ordering::Relaxed) && self.unknown() > 0
    }

    /// The client has sent too many control frames; of HTTP/2.
    pub(crate) fn flooded(&self) {
        self.flooded.store(true, Ordering::Relaxed);
    }

    /// Whether the connection ends because of its control frames.
    pub(crate) fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    /// The client has left, so nobody waits for an answer; of HTTP/2.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// The connection is polled. An end that was read before has waited long enough.
    pub(crate) fn poll(&self) {
        if self.is_gone() {
            self.end_is_due.store(true, Ordering::Relaxed);
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
        if self.leaves.load(Ordering::Relaxed) {
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
        heads.leave();
        assert_eq!(heads.take_refused(), 0);
    }
}
