//! What Redis answered last about a key, and what requests are told by it.

use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Verdict};

use super::lender::{Ask, Lent};

/// After so long what was spent is settled, and what is not needed returned.
pub(super) const HORIZON: Duration = Duration::from_millis(2_500);

/// The longest that requests are refused because Redis had nothing left.
const LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// An answer, and to what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) lent: Lent,
    pub(super) sent: Instant,
    pub(super) received: Instant,
    /// Of what cost it was the answer, or of what cost it is asked next.
    pub(super) cost: u64,
    /// Whether Redis lent less than was wanted.
    pub(super) is_short: bool,
    /// What was spent when it was asked.
    pub(super) spent: u64,
    // Until then requests of this cost are refused.
    refusing: Option<Instant>,
}

impl Answered {
    pub(super) fn new(
        ask: &Ask,
        lent: Lent,
        quota: &Quota,
        sent: Instant,
        received: Instant,
    ) -> Self {
        Self {
            lent,
            sent,
            received,
            cost: ask.cost.max(1),
            is_short: !lent.admitted || lent.out < ask.wanted,
            spent: ask.spent,
            refusing: (!lent.admitted).then(|| sent + pause(&lent, quota)),
        }
    }

    /// The refusal that can be given without asking: Redis had nothing left for such a cost a moment ago.
    pub(super) fn refusal(&mut self, quota: &Quota, cost: u64, now: Instant) -> Option<Verdict> {
        if cost < self.cost || self.lent.left >= cost {
            return None;
        }
        // It was no refusal, and of a larger cost it is not known when it fits.
        if self.refusing.is_none() && self.lent.left >= self.cost {
            return None;
        }
        let until = *self.refusing.get_or_insert_with(|| {
            // The last of the budget was lent, and has been spent.
            (now + pause(&self.lent, quota)).min(self.sent + HORIZON)
        });
        if now >= until {
            return None;
        }
        let since = self.since(now);
        let mut fits_after = self.lent.retry_after.saturating_sub(since);
        // The answer was about a smaller cost.
        if cost > self.cost && quota.is_gradual() {
            let empty_after = self.lent.reset.saturating_sub(since);
            fits_after = match quota.reset_with(fits_after, cost - self.cost) {
                longer if longer > fits_after => longer,
                _ => fits_after.max(empty_after),
            };
        }
        let retry_after = fits_after.max(micros(until - now)).max(1);
        Some(Verdict {
            allowed: false,
            remaining: self.lent.left.min(cost - 1),
            reset: self.lent.reset.saturating_sub(since).max(retry_after),
            retry_after,
            delay: 0,
            settling: false,
        })
    }

    /// Forgets that requests are refused: something comes back.
    pub(super) const fn stop_refusing(&mut self, now: Instant) {
        self.refusing = Some(now);
    }

    /// What a request is told whose cost has just been spent: with the rest of the slice, and all of it that is not settled.
    pub(super) fn spent(&self, quota: &Quota, rest: u64, unsettled: u64, now: Instant) -> Verdict {
        let reset = self.lent.reset.saturating_sub(self.since(now));
        Verdict {
            allowed: true,
            remaining: self.lent.left + rest,
            // What is not settled will be stamped later.
            reset: quota.reset_with(reset, unsettled),
            retry_after: 0,
            delay: 0,
            settling: false,
        }
    }

    fn since(&self, now: Instant) -> Micros {
        micros(now.saturating_duration_since(self.received))
    }
}

/// For how long nothing is asked once Redis has nothing left: until it has, and for a second at most. What comes back bit
/// by bit is left to become worth a call.
fn pause(lent: &Lent, quota: &Quota) -> Duration {
    let period = if quota.is_gradual() {
        quota.period()
    } else {
        0
    };
    let least = Duration::from_micros(period / 32).min(LONGEST_REFUSAL);
    Duration::from_micros(lent.retry_after).clamp(least, LONGEST_REFUSAL)
}

fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}
