//! The last answer of Redis about a key, and the verdicts that follow from it.

use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Verdict};

use super::lender::{Ask, LONGEST_REFUSAL, Lent, shortest_refusal};

/// The time after which spent units are settled, and unneeded units are returned to Redis.
pub(super) const HORIZON: Duration = Duration::from_millis(2_500);

/// An answer, and the call that it answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) lent: Lent,
    pub(super) sent: Instant,
    pub(super) received: Instant,
    /// The cost of the request in the call; 1 without a request.
    pub(super) cost: u64,
    /// Whether Redis lent less than the wanted units.
    pub(super) is_short: bool,
    /// The units that were spent when the call was made.
    pub(super) spent: u64,
    // The time until which requests of this cost are refused.
    refusing: Option<Instant>,
    // The earliest retry time that a refused request has received.
    comes_back: Option<Instant>,
}

impl Answered {
    /// Records an answer. `before` is the previous answer, whose retry time is kept if this call was made in the background.
    pub(super) fn new(
        ask: &Ask,
        lent: Lent,
        before: Option<&Self>,
        sent: Instant,
        received: Instant,
    ) -> Self {
        let retry_after = Duration::from_micros(lent.retry_after);
        let comes_back = match before {
            _ if !lent.admitted => Some(received + retry_after),
            // A call in the background does not change the retry time of a request that was refused before.
            Some(before) if ask.cost == 0 => before.comes_back,
            _ => None,
        };
        Self {
            lent,
            sent,
            received,
            cost: ask.cost.max(1),
            is_short: !lent.admitted || lent.out < ask.wanted,
            spent: ask.spent,
            refusing: (!lent.admitted).then(|| sent + retry_after.min(LONGEST_REFUSAL)),
            comes_back,
        }
    }

    /// Returns the refusal that needs no call: Redis had too few units left for this cost a moment ago.
    pub(super) fn refusal(&mut self, quota: &Quota, cost: u64, now: Instant) -> Option<Verdict> {
        if cost < self.cost || self.lent.left >= cost {
            return None;
        }
        // The answer was no refusal, and does not show when a larger cost fits.
        if self.refusing.is_none() && self.lent.left >= self.cost {
            return None;
        }
        let until = *self.refusing.get_or_insert_with(|| {
            // The last units of the budget were lent, and have been spent.
            let fits_at = self.received + Duration::from_micros(self.lent.retry_after);
            let until = fits_at.clamp(now + shortest_refusal(quota), now + LONGEST_REFUSAL);
            let until = until.min(self.sent + HORIZON);
            self.comes_back.map_or(until, |time| until.min(time))
        });
        if now >= until {
            return None;
        }
        let since = self.since(now);
        let mut fits_after = self.lent.retry_after.saturating_sub(since);
        // The answer was about a smaller cost, so this cost may have to wait longer.
        if cost > self.cost && quota.is_gradual() {
            let empty_after = self.lent.reset.saturating_sub(since);
            fits_after = match quota.reset_with(fits_after, cost - self.cost) {
                longer if longer > fits_after => longer,
                _ => fits_after.max(empty_after),
            };
        }
        let retry_after = fits_after.max(micros(until - now)).max(1);
        let comes_back = now + Duration::from_micros(retry_after);
        self.comes_back = Some(
            self.comes_back
                .map_or(comes_back, |time| time.min(comes_back)),
        );
        Some(Verdict {
            allowed: false,
            remaining: self.lent.left.min(cost - 1),
            reset: self.lent.reset.saturating_sub(since).max(retry_after),
            retry_after,
            ..Verdict::default()
        })
    }

    /// Returns the verdict on a cost that has just been spent. `rest` is the units left in the slice, and `unsettled` its unsettled units.
    pub(super) fn spent(&self, quota: &Quota, rest: u64, unsettled: u64, now: Instant) -> Verdict {
        let reset = self.lent.reset.saturating_sub(self.since(now));
        Verdict {
            allowed: true,
            remaining: self.lent.left + rest,
            // Redis will charge unsettled units later, so they count for longer.
            reset: quota.reset_with(reset, unsettled),
            ..Verdict::default()
        }
    }

    fn since(&self, now: Instant) -> Micros {
        micros(now.saturating_duration_since(self.received))
    }
}

fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}
