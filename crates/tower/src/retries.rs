//! The times at which a request that waits for holds of others calls the store again without notice of an end.
//!
//! Ends of holds in this process wake the head of a wait queue. Two events do not: the limit's own refill, at a time that can be computed,
//! and ends of holds in other gateways. For ends elsewhere, the head calls again after 50, 150, 350 and 750 ms, and when its second is
//! over. All heads of a gateway together make [`PER_SECOND`] such calls at most: beyond that, a head calls only at the end of its second.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_core::Verdict;

/// The most calls in a second that all heads make to learn of ends of holds in other gateways.
pub(crate) const PER_SECOND: u32 = 400;

/// The first pause, which doubles with each call.
const FIRST: Duration = Duration::from_millis(50);

/// The shortest pause before a call for the limit's own refill, which doubles as well.
const FIRST_REFILL: Duration = Duration::from_millis(5);

/// The calls of this second.
#[derive(Debug, Default)]
pub(crate) struct Retries(Mutex<Option<(Instant, u32)>>);

impl Retries {
    /// Whether one more call may be made in this second.
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

    /// Returns how long a head waits for the end of a hold before it calls again. `left` is the rest of its time, `calls` the number of its
    /// calls before. `others` is true if other gateways may end holds. `spread` (0 to 255) moves its calls apart from the calls of other
    /// heads.
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
        // A limit that others use up as fast as it refills is not asked all the time.
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
