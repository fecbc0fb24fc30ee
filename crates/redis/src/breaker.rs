//! A circuit breaker: while Redis does not answer, most requests make no call.
//!
//! ```text
//! closed ── FAILURES in a row ──▶ open ── PAUSE ──▶ half open: one request asks ──▶ closed, or open again
//! ```
//!
//! Without a connection there is no pause, because calls fail at once. Each request may try, so requests use a new connection as soon as it
//! is up.
//!
//! Callers pass the time since a fixed start, so that tests need no clock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The number of failures in a row after which the breaker opens, so that requests no longer wait for Redis.
const FAILURES: u32 = 5;

/// The time after which an open breaker lets the next request call Redis. This request may wait in vain. With 500 requests per second, at
/// most one request in a hundred waits in vain. The pause is short, so that decisions resume within a second after Redis returns.
const PAUSE: Duration = Duration::from_millis(200);

/// The state of a circuit breaker.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    failures: AtomicU32,
    // The time at which the next request may try, in us since the caller's fixed start. 0 while the breaker is closed.
    next_try: AtomicU64,
}

/// A change of the state, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Opened,
    Closed,
}

impl Breaker {
    /// Whether a request may call Redis at `now`. While the breaker is open, one request per pause may call.
    pub(crate) fn admits(&self, now: Duration) -> bool {
        let next = self.next_try.load(Ordering::Acquire);
        if next == 0 {
            return true;
        }
        let now = micros(now);
        // Several requests may compete here. Only the request that replaces `next_try` may call Redis.
        now >= next
            && self
                .next_try
                .compare_exchange(
                    next,
                    now + micros(PAUSE),
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    /// Whether the breaker is open. It stays open until a request gets an answer.
    pub(crate) fn is_open(&self) -> bool {
        self.next_try.load(Ordering::Relaxed) != 0
    }

    /// Records that Redis has answered. Returns `Closed` if the breaker was open.
    pub(crate) fn succeeded(&self) -> Option<Change> {
        // Both values are checked, because a failure may have opened the breaker after a concurrent success reset the count.
        let failures = self.failures.load(Ordering::Relaxed);
        if failures == 0 && self.next_try.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.failures.store(0, Ordering::Relaxed);
        let open = self.next_try.swap(0, Ordering::AcqRel) != 0;
        open.then_some(Change::Closed)
    }

    /// Records that a request waited and got no decision. Returns `Opened` if this failure opened the breaker.
    pub(crate) fn failed(&self, now: Duration) -> Option<Change> {
        self.failed_until(now + PAUSE)
    }

    /// Records that there was no connection, so no request waited. The next request may try at once.
    pub(crate) fn failed_at_once(&self, now: Duration) -> Option<Change> {
        let change = self.failed_until(now);
        if change.is_none() {
            // The next try is allowed now, if the breaker is still open.
            let open = |next: u64| (next != 0).then_some(micros(now).max(1));
            let _ = self
                .next_try
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, open);
        }
        change
    }

    fn failed_until(&self, next_try: Duration) -> Option<Change> {
        let failures = self
            .failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        if failures < FAILURES {
            return None;
        }
        // The pause begins at the failure, because the request may have waited for longer than a pause.
        let next = micros(next_try).max(1);
        let closed = self.next_try.fetch_max(next, Ordering::AcqRel) == 0;
        closed.then_some(Change::Opened)
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(7);

    fn opened() -> Breaker {
        let breaker = Breaker::default();
        for _ in 1..FAILURES {
            assert_eq!(breaker.failed(START), None);
            assert!(breaker.admits(START));
        }
        assert_eq!(breaker.failed(START), Some(Change::Opened));
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_only() {
        let breaker = Breaker::default();
        for _ in 0..10 {
            for _ in 1..FAILURES {
                assert_eq!(breaker.failed(START), None);
            }
            assert_eq!(breaker.succeeded(), None);
        }
        assert!(!opened().admits(START));
    }

    #[test]
    fn while_it_is_open_one_request_a_pause_tries() {
        let breaker = opened();
        assert!(!breaker.admits(START + PAUSE - Duration::from_micros(1)));
        for pause in 1..5 {
            let now = START + pause * PAUSE;
            assert!(breaker.admits(now));
            assert!(!breaker.admits(now), "only one");
            assert_eq!(breaker.failed(now), None, "it is open already");
        }
    }

    #[test]
    fn after_a_try_that_took_long_there_is_a_pause_as_well() {
        let breaker = opened();
        let (tried, failed) = (START + PAUSE, START + 10 * PAUSE);
        assert!(breaker.admits(tried));
        assert_eq!(breaker.failed(failed), None);
        assert!(!breaker.admits(failed + PAUSE - Duration::from_micros(1)));
        assert!(breaker.admits(failed + PAUSE));
    }

    #[test]
    fn one_success_closes_it() {
        let breaker = opened();
        assert!(breaker.admits(START + PAUSE));
        assert!(breaker.is_open());
        assert_eq!(breaker.succeeded(), Some(Change::Closed));
        assert!(!breaker.is_open());
        assert!(breaker.admits(START + PAUSE));
        assert_eq!(
            breaker.failed(START + PAUSE),
            None,
            "failures are counted anew"
        );
        assert!(breaker.admits(START + PAUSE));
    }

    #[test]
    fn one_that_opened_after_a_success_closes_with_the_next() {
        let breaker = opened();
        breaker.failures.store(0, Ordering::Relaxed);
        assert_eq!(breaker.succeeded(), Some(Change::Closed));
        assert!(breaker.admits(START) && breaker.admits(START));
    }

    #[test]
    fn without_a_connection_every_request_may_try() {
        let breaker = Breaker::default();
        for _ in 1..FAILURES {
            assert_eq!(breaker.failed_at_once(START), None);
        }
        assert_eq!(breaker.failed_at_once(START), Some(Change::Opened));
        for _ in 0..10 {
            assert!(breaker.admits(START));
            assert!(!breaker.admits(START), "only one at a time");
            assert_eq!(breaker.failed_at_once(START), None, "it is open already");
        }
        // After a request that waited in vain, there is a pause again.
        assert!(breaker.admits(START));
        assert_eq!(breaker.failed(START), None);
        assert!(!breaker.admits(START));
        assert!(breaker.admits(START + PAUSE));
        assert_eq!(breaker.succeeded(), Some(Change::Closed));
    }
}
