//! Schedules the calls of requests that wait for holds of other requests. Such a request calls the store again, even if no end of a hold
//! wakes the request.
//!
//! The end of a hold in this process wakes the head of a wait queue. Two events do not wake the head: the limit's own refill, whose time
//! can be computed, and the end of a hold in another gateway. To notice ends of holds in other gateways, the head calls the store again
//! after about 50, 150, 350 and 750 ms, and when its wait of at most a second ends. All heads of a gateway together make at most
//! [`PER_SECOND`] such calls in a second. If no such call is left in a second, a head calls the store only at the limit's refill or at the
//! end of its wait.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Verdict;

/// The most calls in a second that all heads of a gateway make to notice ends of holds in other gateways.
pub(crate) const PER_SECOND: u32 = 400;

/// The first pause of a head before a call to notice ends of holds in other gateways. The pause doubles with each call.
const FIRST: Duration = Duration::from_millis(50);

/// The shortest pause before a call for the limit's own refill. This pause doubles with each call, too.
const FIRST_REFILL: Duration = Duration::from_millis(5);

/// The start of the current second, and the number of calls since then that were made to notice ends of holds in other gateways.
#[derive(Debug, Default)]
pub(crate) struct Retries(Mutex<Option<(Instant, u32)>>);

impl Retries {
    /// Returns true and counts a call, if the current second allows another call.
    fn take(&self) -> bool {
        let now = Instant::now();
        let mut second = self.0.lock();
        let (began, count) = second.get_or_insert((now, 0));
        if now.duration_since(*began) >= Duration::from_secs(1) {
            (*began, *count) = (now, 0);
        }
        let may = *count < PER_SECOND;
        *count += u32::from(may);
        may
    }

    /// Returns the time that a head waits for the end of a hold before it calls the store again. `left` is the time until the head must
    /// stop waiting, and `calls` is the number of pauses that the head has already made. `others` is true if other gateways may end holds.
    /// `spread` (0 to 255) varies the time, so that heads do not call all at once.
    pub(crate) fn pause(
        &self,
        verdict: &Verdict,
        left: Duration,
        calls: u32,
        others: bool,
        spread: u8,
    ) -> Duration {
        let doubled = |first: Duration| first.saturating_mul(1 << calls.min(16));
        let refill = Duration::from_micros(verdict.retry_after).max(doubled(FIRST_REFILL));
        let pause = left.min(refill);
        let retry = doubled(FIRST) * (192 + u32::from(spread) / 2) / 256;
        if others && retry < pause && self.take() {
            return retry;
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(1);

    fn verdict(retry_after: u64) -> Verdict {
        Verdict {
            allowed: false,
            remaining: 0,
            reset: retry_after,
            retry_after,
            delay: 0,
            settling: true,
        }
    }

    #[test]
    fn alone_a_head_asks_again_at_the_end_or_when_the_limit_has_refilled() {
        let retries = Retries::default();
        let pause = |micros, calls| retries.pause(&verdict(micros), LEFT, calls, false, 0);
        assert_eq!(pause(60_000_000, 0), LEFT);
        assert_eq!(pause(300_000, 0), Duration::from_millis(300));
        // If others use up a limit as fast as it refills, the pauses grow, so that the store is not called all the time.
        let pauses = [0, 1, 4].map(|calls| pause(1, calls));
        assert_eq!(pauses, [5, 10, 80].map(Duration::from_millis));
        assert_eq!(pause(1, u32::MAX), LEFT);
    }

    #[test]
    fn beside_other_gateways_it_asks_ever_more_seldom_and_all_heads_a_bounded_number_of_times() {
        let retries = Retries::default();
        let pause = |calls| retries.pause(&verdict(60_000_000), LEFT, calls, true, 128);
        let pauses = [0, 1, 2, 3, 4].map(pause);
        assert_eq!(pauses, [50, 100, 200, 400, 800].map(Duration::from_millis));
        let early = (5..PER_SECOND).filter(|_| pause(0) < LEFT);
        assert_eq!(early.count() as u32, PER_SECOND - 5);
        assert_eq!(pause(0), LEFT);
    }
}
