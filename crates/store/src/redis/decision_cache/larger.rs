//! Costs above the cost of a cached refusal: they are refused as well, and may have to wait longer.
//!
//! The wait of a larger cost usually follows from the refusal. The wait may be unknown for `sliding_window_log`, `sliding_window_counter`,
//! or a block that ends within a window. If the wait is unknown, at most about one request of a larger cost per key calls Redis in each
//! second. The answer is kept beside the refusal, and applies to all costs up to the cost in this call. A still larger cost waits until any
//! cost fits. For a leased limit, the wait never follows from the refusal.

use std::time::{Duration, Instant};

use tidegate_core::{Block, Micros, Verdict};

use super::{Seen, longest, micros};
use crate::{Charge, Mode};

/// The refusal of a larger cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Larger {
    cost: u64,
    // The units that were left.
    remaining: u64,
    sent: Instant,
    fits: Instant,
}

impl Larger {
    fn of(refusal: &Seen) -> Self {
        Self {
            cost: refusal.cost,
            remaining: refusal.verdict.remaining,
            sent: refusal.sent,
            fits: refusal.received + Duration::from_micros(refusal.verdict.retry_after),
        }
    }
}

impl Seen {
    /// Returns the refusal of a charge that costs no less than the refused cost, and the time by Redis's clock. `None` for a smaller cost,
    /// after `retry_after` has passed, or if the wait of the larger cost is unknown.
    pub(super) fn refusal_of(
        &self,
        charge: &Charge<'_>,
        now: Instant,
    ) -> Option<(Verdict, Micros)> {
        let (mut verdict, at) = self.refusal(now).filter(|_| self.cost <= charge.cost)?;
        if charge.cost > self.cost {
            verdict.retry_after = self.wait_of(charge, &verdict, now)?;
            verdict.reset = verdict.reset.max(verdict.retry_after);
        }
        Some((verdict, at))
    }

    /// Returns the kept refusal of a larger cost, if the kept refusal is valid and the charge costs no less than that cost. The kept
    /// refusal may last longer than the refusal of the smaller cost.
    pub(super) fn lasting_refusal(&self, charge: &Charge<'_>, now: Instant) -> Option<Verdict> {
        let larger = self.larger.as_ref()?;
        let wait = micros(larger.fits.saturating_duration_since(now));
        let is_new = now.saturating_duration_since(larger.sent) < longest(charge);
        if larger.cost > charge.cost || wait == 0 || !is_new {
            return None;
        }
        let since = micros(now.saturating_duration_since(self.received));
        let reset = self.verdict.reset.saturating_sub(since).max(wait);
        Some(Verdict {
            retry_after: if charge.cost > larger.cost {
                reset
            } else {
                wait
            },
            reset,
            ..self.verdict
        })
    }

    /// Returns the refusal with the wait after which any cost fits.
    pub(super) fn longest_refusal(&self, now: Instant) -> Option<(Verdict, Micros)> {
        let (mut verdict, at) = self.refusal(now)?;
        verdict.retry_after = verdict.reset;
        Some((verdict, at))
    }

    /// Keeps the later refusal `answer` beside this refusal, if it is of a larger cost and refuses the smaller cost as well. Returns
    /// whether it is kept.
    pub(super) fn adds(&mut self, charge: &Charge<'_>, answer: &Self) -> bool {
        let now = answer.received;
        let holds = self.holds && self.is_new(charge, now);
        let is_smaller = self.cost < answer.cost && self.cost > answer.verdict.remaining;
        let Some((verdict, at)) = self
            .refusal(now)
            .filter(|_| holds && is_smaller && answer.holds)
        else {
            return false;
        };
        if let Some(Block { span, extend: true }) = charge.limit.block() {
            // The request of this answer has started the block anew.
            let retry_after = verdict.retry_after.max(span);
            self.verdict = Verdict {
                retry_after,
                reset: verdict.reset.max(retry_after),
                ..verdict
            };
            (self.at, self.received) = (at, now);
        }
        self.asking = None;
        self.larger = Some(Larger::of(answer));
        true
    }

    /// Returns the refusal of a larger cost to keep beside `answer`. `answer` is the new refusal, and replaces `self`.
    pub(super) fn larger_than(&self, answer: &Self) -> Option<Larger> {
        let larger = self.larger.unwrap_or_else(|| Larger::of(self));
        // If units were charged after the larger cost was refused, its wait is longer now, and the kept refusal is outdated.
        let is_outdated = answer.verdict.remaining < larger.remaining;
        (self.holds && larger.cost > answer.cost && !is_outdated).then_some(larger)
    }

    /// Returns the wait of a larger cost. `smaller` is this refusal with its times as of `now`.
    fn wait_of(&self, charge: &Charge<'_>, smaller: &Verdict, now: Instant) -> Option<Micros> {
        // The reset of a leased limit leaves out slices of other gateways, so no wait follows from it.
        let is_leased = charge.limit.mode() == Mode::Leased;
        let quota_wait = match is_leased {
            true => None,
            false => charge.limit.quota().wait_of(charge.cost, smaller),
        };
        quota_wait.or_else(|| {
            let larger = self.larger.as_ref()?;
            let wait = micros(larger.fits.saturating_duration_since(now));
            let is_new = now.saturating_duration_since(larger.sent) < longest(charge);
            match charge.cost <= larger.cost && wait > 0 {
                true => is_new.then(|| wait.max(smaller.retry_after)),
                false => (is_new && !is_leased).then_some(smaller.reset),
            }
        })
    }
}
