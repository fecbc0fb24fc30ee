//! An estimate of Redis's clock, and the deadlines of scripts on that clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::Micros;

/// The difference between Redis's clock and the clock of this process.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    // Redis's time minus the time since `start`, in us. `UNKNOWN` before the first answer.
    offset: AtomicI64,
    // The time at which the call that gave `offset` was sent, in us since `start`.
    seen: AtomicI64,
}

const UNKNOWN: i64 = i64::MAX;

/// The time for which the answer of the fastest call is used, in us. Clocks drift apart by less than a millisecond in this time.
const BEST_OF: i64 = 10_000_000;

impl Default for Clock {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            offset: AtomicI64::new(UNKNOWN),
            seen: AtomicI64::new(0),
        }
    }
}

impl Clock {
    /// Returns the time since this clock was made.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records Redis's time from the answer to a call that was sent at `sent`. Redis read its clock after `sent`, so the estimate is never
    /// behind Redis's clock. The estimate is ahead by at most the time that the call took to reach Redis. So the clock uses the answer of
    /// the fastest of several calls.
    pub(crate) fn saw(&self, time: Micros, sent: Instant) {
        let (offset, sent_at) = self.offset(time, sent);
        let age = sent_at.saturating_sub(self.seen.load(Ordering::Relaxed));
        if age > BEST_OF || offset < self.offset.load(Ordering::Relaxed) {
            self.set(time, sent);
        }
    }

    /// Records Redis's time from the answer of a script that ran too late. This answer replaces all earlier answers, because the server or
    /// its clock may have changed.
    pub(crate) fn set(&self, time: Micros, sent: Instant) {
        let (offset, sent) = self.offset(time, sent);
        self.offset.store(offset, Ordering::Relaxed);
        self.seen.store(sent, Ordering::Relaxed);
    }

    /// Returns Redis's time minus the time since `start`, and the time at which the call was sent, both in us.
    fn offset(&self, time: Micros, sent: Instant) -> (i64, i64) {
        let sent = micros(sent.saturating_duration_since(self.start));
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        (time.saturating_sub(sent), sent)
    }

    /// Returns the time on Redis's clock. The estimate is never behind that clock, and is ahead by at most the time that the fastest call
    /// took to reach Redis. Returns `None` before the first answer.
    pub(crate) fn now(&self) -> Option<Micros> {
        self.deadline(Duration::ZERO)
    }

    /// Returns the time on Redis's clock at which a call that is sent now times out, or `None` before the first answer.
    pub(crate) fn deadline(&self, timeout: Duration) -> Option<Micros> {
        let offset = self.offset.load(Ordering::Relaxed);
        if offset == UNKNOWN {
            return None;
        }
        let deadline = offset.saturating_add(micros(self.elapsed() + timeout));
        Some(Micros::try_from(deadline).unwrap_or(0))
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_lies_a_timeout_after_what_was_seen() {
        let clock = Clock::default();
        let timeout = Duration::from_millis(25);
        assert_eq!((clock.deadline(timeout), clock.now()), (None, None));
        let sent = Instant::now();
        clock.saw(1_000_000_000, sent);
        let before = sent.elapsed();
        let deadline = clock.deadline(timeout).unwrap();
        let after = sent.elapsed();
        let on_clock = |since: Duration| 1_000_000_000 + (since + timeout).as_micros() as u64;
        // Each of the two times is rounded down, so 1 us may be missing.
        assert!((on_clock(before)..=on_clock(after) + 1).contains(&deadline));
        // A larger offset shows a slower call and is ignored. A smaller offset replaces the estimate.
        clock.saw(9_000_000_000_000, Instant::now());
        assert!(clock.deadline(timeout).unwrap() < 5_000_000_000_000);
        clock.saw(5, Instant::now());
        assert!(clock.deadline(timeout).unwrap() < 1_000_000_000);
        // If the clock of Redis is ahead, scripts run too late and return the time of Redis.
        clock.set(2_000_000_000, Instant::now());
        assert!(clock.deadline(timeout).unwrap() >= 2_000_000_000);
    }

    #[test]
    fn what_was_seen_long_ago_gives_way() {
        let clock = Clock::default();
        let at = |seconds| clock.start + Duration::from_secs(seconds);
        clock.saw(5, at(0));
        clock.saw(1_000_000_000, at(9));
        assert!(clock.deadline(Duration::ZERO).unwrap() < 1_000_000);
        clock.saw(1_000_000_000, at(11));
        assert!(clock.deadline(Duration::ZERO).unwrap() > 900_000_000);
    }
}
