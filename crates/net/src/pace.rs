//! Measures, as a time, how far a client is behind the least rate of a transfer.
//!
//! The time grows while the gateway waits for the client, and shrinks with each byte, but never below 0. So an upstream's delay does not
//! count against a client, and a fast start allows no long pause later.

use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// The number of progress checks within the longest time that a client may be behind.
const LOOKS: u32 = 8;

/// The least rate at which a client must send the body of a request and read its answer.
///
/// Time counts only while the gateway waits for the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastRate {
    /// The rate, in bytes per second.
    pub rate: NonZeroU64,
    /// The longest time that a client may be behind the rate.
    pub after: Duration,
}

impl Default for LeastRate {
    fn default() -> Self {
        Self {
            rate: NonZeroU64::MIN.saturating_add(239),
            after: Duration::from_secs(60),
        }
    }
}

/// The time by which a client is behind the least rate in one transfer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    behind: Duration,
}

impl Pace {
    /// Adds time for which the gateway waited for the client.
    pub fn waited(&mut self, waited: Duration) {
        self.behind = self.behind.saturating_add(waited);
    }

    /// Credits bytes that the client sent or read.
    pub fn moved(&mut self, bytes: u64, least: LeastRate) {
        if self.behind.is_zero() {
            return;
        }
        // The product fits in 64 bits for up to 18 TB.
        let micros = bytes.saturating_mul(1_000_000) / least.rate;
        self.behind = self.behind.saturating_sub(Duration::from_micros(micros));
    }

    /// Returns how much longer the gateway may wait for the client.
    pub fn left(&self, least: LeastRate) -> Duration {
        least.after.saturating_sub(self.behind)
    }

    /// Returns how long to wait for the client until the next check of its progress.
    pub fn look(&self, least: LeastRate) -> Duration {
        self.left(least).min(least.after / LOOKS)
    }
}

/// A timer for a deadline that is usually postponed before it passes. It is reset only when it fires, or when a new deadline is earlier,
/// because each reset has a cost.
#[derive(Debug, Default)]
pub struct Timer(Option<Pin<Box<Sleep>>>);

impl Timer {
    /// Returns `Ready` when the deadline has passed.
    pub fn poll(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self
            .0
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(context).is_ready() {
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn least() -> LeastRate {
        LeastRate::default()
    }

    /// Waits and transfers bytes in turn. Returns the number of turns after which the client is too far behind, at most 1,000.
    fn turns(waited: Duration, bytes: u64) -> usize {
        let mut pace = Pace::default();
        (0..1_000)
            .take_while(|_| {
                pace.waited(waited);
                let in_time = !pace.left(least()).is_zero();
                pace.moved(bytes, least());
                in_time
            })
            .count()
    }

    #[test]
    fn the_least_rate_is_enough_for_ever() {
        assert_eq!(turns(SECOND, 240), 1_000);
        assert_eq!(turns(59 * SECOND, 59 * 240), 1_000);
        assert_eq!(turns(SECOND / 10, 24), 1_000);
    }

    #[test]
    fn less_is_enough_for_a_while() {
        assert_eq!(turns(SECOND, 0), 59);
        assert_eq!(turns(5 * SECOND, 10), 12, "10 bytes every 5 s");
        assert_eq!(turns(SECOND, 120), 118, "half the rate");
        assert_eq!(turns(70 * SECOND, 1), 0, "a byte every 70 s");
    }

    #[test]
    fn a_fast_start_buys_nothing() {
        let mut pace = Pace::default();
        pace.moved(1 << 30, least());
        pace.waited(60 * SECOND);
        assert!(pace.left(least()).is_zero());
        assert!(pace.look(least()).is_zero());
        pace.moved(1 << 30, least());
        assert_eq!(pace.left(least()), 60 * SECOND);
    }
}
