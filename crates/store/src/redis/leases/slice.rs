//! One slice: what may be spent of it, and what is to be asked of Redis when. Times and call numbers are passed in.

use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Verdict};

use super::lender::{Ask, Lent};

/// A slice should last for so long; what is left of it after this time is returned, and what was spent is settled.
pub(super) const HORIZON: Duration = Duration::from_secs(2);

/// The longest that requests are refused because Redis had nothing left.
const LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// How long nothing is asked in the background after a call that failed.
const RETRY: Duration = Duration::from_millis(100);

/// One limit's slice for one key.
#[derive(Debug)]
pub(super) struct Slice {
    session: u64,
    // Units since the session began: spent, of these settled, and how many may be spent.
    spent: u64,
    settled: u64,
    allowance: u64,
    // When the rest may not be spent any more; and that by Redis's clock, which is later.
    ends: Option<Instant>,
    lapse: Micros,
    // How large the slice should be: nothing on a cold key.
    size: u64,
    // What was asked and is not answered yet.
    asked: Option<Ask>,
    // Whether the answer to it is worth nothing any more.
    is_void: bool,
    // What those asked for that wait for the answer.
    waiting: u64,
    // What was told as spent with it and has been taken back since.
    returning: u64,
    last: Option<Answered>,
    // When something may be asked in the background again.
    not_before: Option<Instant>,
}

/// The last answer.
#[derive(Clone, Copy, Debug)]
struct Answered {
    lent: Lent,
    sent: Instant,
    received: Instant,
    // Of what cost it was the answer.
    cost: u64,
    // Whether Redis lent less than was wanted.
    is_short: bool,
    // What was spent when it was asked.
    spent: u64,
    // While requests of this cost are refused without asking.
    refusing: Option<Instant>,
}

/// What becomes of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was spent, or refused, here; and something is to be asked in the background.
    Done(Verdict, Option<Ask>),
    /// Redis has to be asked.
    Ask(Ask),
    /// Redis is being asked for this key already.
    Wait,
}

impl Slice {
    /// No slice, in a new session.
    pub(super) const fn new(session: u64) -> Self {
        Self {
            session,
            spent: 0,
            settled: 0,
            allowance: 0,
            ends: None,
            lapse: 0,
            size: 0,
            asked: None,
            is_void: false,
            waiting: 0,
            returning: 0,
            last: None,
            not_before: None,
        }
    }

    /// Spends, or says what to do instead.
    pub(super) fn take(
        &mut self,
        quota: &Quota,
        cost: u64,
        now: Instant,
        number: impl FnOnce() -> u64,
    ) -> Step {
        if cost <= self.rest(now) {
            self.spent += cost;
            let ask = self.is_low(now).then(|| {
                self.grow(quota, now);
                self.ask(0, self.rest(now), number())
            });
            return Step::Done(self.spent_verdict(quota, now), ask);
        }
        if self.asked.is_some() {
            self.waiting += cost;
            return Step::Wait;
        }
        if let Some(refusal) = self.refusal(quota, cost, now) {
            return Step::Done(refusal, None);
        }
        self.grow(quota, now);
        Step::Ask(self.ask(cost, 0, number()))
    }

    /// Takes back what was spent. What Redis has charged already is to be given back there: so much, by this receipt.
    pub(super) fn give_back(&mut self, cost: u64) -> Option<(u64, Micros)> {
        let told = self.asked.map_or(self.settled, |ask| ask.spent);
        let untold = self.spent.saturating_sub(told).min(cost);
        self.spent -= untold;
        let rest = cost - untold;
        if self.asked.is_some() {
            // It is being charged at this moment.
            self.returning += rest;
            return None;
        }
        let receipt = self.last.as_ref()?.lent.receipt();
        (rest > 0).then_some((rest, receipt))
    }

    /// Notes the answer to what was asked last. Says what of it is to be given back after all, as
    /// [`give_back`](Self::give_back).
    pub(super) fn answered(
        &mut self,
        lent: Lent,
        quota: &Quota,
        sent: Instant,
        received: Instant,
    ) -> Option<(u64, Micros)> {
        let ask = self.asked.take()?;
        let returning = std::mem::take(&mut self.returning);
        self.note(&ask, lent, quota, sent, received);
        (returning > 0).then(|| (returning, lent.receipt()))
    }

    fn note(&mut self, ask: &Ask, lent: Lent, quota: &Quota, sent: Instant, received: Instant) {
        self.settled = ask.spent;
        self.not_before = None;
        if std::mem::take(&mut self.is_void) {
            return;
        }
        self.allowance = ask.spent + lent.out;
        self.lapse = lent.lapse;
        // Counted from before Redis did, and by a clock that may run slower than Redis's by one part in a thousand.
        let term = Duration::from_micros(lent.lapse.saturating_sub(lent.now));
        self.ends = Some(sent + term - term / 1_000);
        let refusing = (!lent.admitted).then(|| sent + pause(&lent, quota));
        self.last = Some(Answered {
            lent,
            sent,
            received,
            cost: ask.cost.max(1),
            is_short: !lent.admitted || lent.out < ask.wanted,
            spent: ask.spent,
            refusing,
        });
    }

    /// Notes that there was no answer.
    pub(super) fn failed(&mut self, now: Instant) {
        self.asked = None;
        self.is_void = false;
        // If it was charged all the same, that stays charged.
        let returning = std::mem::take(&mut self.returning);
        self.spent -= returning.min(self.spent - self.settled);
        self.not_before = Some(now + RETRY);
    }

    /// Whether Redis is to be told what was spent, and given back what was not.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        // Well before it lapses, should that be sooner.
        let soon = Duration::from_micros(last.lent.lapse.saturating_sub(last.lent.now)) / 2;
        self.is_out(now) && self.may_ask(now) && now >= last.sent + HORIZON.min(soon)
    }

    /// Whether anything of it is out: lent, or spent and not settled.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        self.allowance.max(self.spent) > self.settled && self.ends.is_some_and(|ends| now < ends)
    }

    /// Whether nothing would be lost with it.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let is_new = |last: Answered| now < last.received + HORIZON;
        !self.is_out(now) && self.asked.is_none() && !self.last.is_some_and(is_new)
    }

    /// Settles: gives back what is not needed.
    pub(super) fn settle(&mut self, quota: &Quota, now: Instant, number: u64) -> Ask {
        if let Some(last) = self.last {
            let used = self.spent.saturating_sub(last.spent);
            if used == 0 {
                self.size = 0;
            } else if used < last.lent.out / 2 {
                self.size /= 2;
            }
        }
        self.size = self.size.min(quota.capacity());
        self.ask(0, self.rest(now).min(self.size), number)
    }

    /// Settles, and gives back all.
    pub(super) fn end(&mut self, number: u64) -> Ask {
        self.size = 0;
        self.ask(0, 0, number)
    }

    /// Nothing holds any more that Redis was asked before, and nothing is spent until it is asked again.
    pub(super) fn forget(&mut self) {
        self.allowance = self.spent;
        self.last = None;
        self.is_void = self.asked.is_some();
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Begins to ask; what is not kept is not spent any more, whether an answer comes or not.
    fn ask(&mut self, cost: u64, kept: u64, call: u64) -> Ask {
        self.allowance = self.spent + kept;
        self.waiting = 0;
        let ask = Ask {
            cost,
            session: self.session,
            call,
            spent: self.spent,
            unsettled: self.spent - self.settled,
            kept,
            lapse: self.lapse,
            wanted: self.size,
        };
        self.asked = Some(ask);
        ask
    }

    /// What can be spent.
    fn rest(&self, now: Instant) -> u64 {
        if self.ends.is_some_and(|ends| now < ends) {
            self.allowance.saturating_sub(self.spent)
        } else {
            0
        }
    }

    /// Whether more should be borrowed, before the slice is used up.
    fn is_low(&self, now: Instant) -> bool {
        // Where Redis had nothing left it is asked when this is spent.
        let can_have = |last: &Answered| last.lent.left >= last.cost;
        2 * self.rest(now) < self.size
            && self.may_ask(now)
            && self.last.as_ref().is_some_and(can_have)
    }

    fn may_ask(&self, now: Instant) -> bool {
        self.asked.is_none() && self.not_before.is_none_or(|time| now >= time)
    }

    /// A slice that did not last is followed by one of twice the size, unless Redis had less already.
    fn grow(&mut self, quota: &Quota, now: Instant) {
        let is_fast = |last: &Answered| now < last.sent + HORIZON && !last.is_short;
        let doubled = if self.last.as_ref().is_some_and(is_fast) {
            (2 * self.size).max(1)
        } else {
            self.size
        };
        self.size = doubled.max(self.waiting).min(quota.capacity());
    }

    /// The refusal that can be given without asking: Redis had nothing left for such a cost a moment ago.
    fn refusal(&mut self, quota: &Quota, cost: u64, now: Instant) -> Option<Verdict> {
        let last = self.last.as_mut()?;
        if cost < last.cost || last.lent.left >= cost {
            return None;
        }
        let until = *last.refusing.get_or_insert_with(|| {
            // The last of the budget was lent, and has been spent.
            (now + pause(&last.lent, quota)).min(last.sent + HORIZON)
        });
        if now >= until {
            return None;
        }
        let since = micros(now.saturating_duration_since(last.received));
        let told = last.lent.retry_after.saturating_sub(since);
        let retry_after = told.max(micros(until - now)).max(1);
        Some(Verdict {
            allowed: false,
            remaining: last.lent.left.min(cost - 1),
            reset: last.lent.reset.saturating_sub(since).max(retry_after),
            retry_after,
            delay: 0,
        })
    }

    /// What a request is told whose cost has just been spent.
    fn spent_verdict(&self, quota: &Quota, now: Instant) -> Verdict {
        let (mut left, mut reset) = (0, 0);
        if let Some(last) = &self.last {
            let since = micros(now.saturating_duration_since(last.received));
            left = last.lent.left;
            reset = last.lent.reset.saturating_sub(since);
        }
        Verdict {
            allowed: true,
            remaining: left + self.allowance - self.spent,
            reset: reset_of(quota, reset, self.spent - self.settled),
            retry_after: 0,
            delay: 0,
        }
    }
}

/// How long until all is forgotten, where that is so for what is settled, and `unsettled` will be stamped now.
fn reset_of(quota: &Quota, settled: Micros, unsettled: u64) -> Micros {
    match quota {
        Quota::TokenBucket(bucket) => {
            let [_, weight, pay, _] = bucket.meter().numbers();
            settled + (unsettled * weight).div_ceil(pay)
        }
        Quota::SlidingWindowLog(log) => log.window(),
        _ => settled,
    }
}

/// For how long nothing is asked once Redis has nothing left: until it has, and for a second at most. What comes back bit
/// by bit is left to become worth a call.
fn pause(lent: &Lent, quota: &Quota) -> Duration {
    let period = match quota {
        Quota::TokenBucket(quota) => quota.meter().numbers()[3],
        Quota::SlidingWindowLog(quota) => quota.window(),
        Quota::SlidingWindowCounter(quota) => quota.window(),
        // All at once, or never lent.
        Quota::FixedWindow(_) | Quota::LeakyBucket(_) => 0,
    };
    let least = Duration::from_micros(period / 32).min(LONGEST_REFUSAL);
    Duration::from_micros(lent.retry_after).clamp(least, LONGEST_REFUSAL)
}

fn micros(time: Duration) -> Micros {
    Micros::try_from(time.as_micros()).unwrap_or(Micros::MAX)
}

#[cfg(test)]
mod tests;
