//! One slice: what may be spent of it, and what is to be asked of Redis when. Times and call numbers are passed in.

use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Verdict};

use super::answered::{Answered, HORIZON};
use super::lender::{Ask, Lent};

/// A slice should last for so long: until it is settled, and a little longer.
const SUPPLY: Duration = Duration::from_secs(3);

/// Of such a part of a quota less is little.
const LITTLE: u64 = 64;

/// How long nothing is asked in the background after a call that failed.
const RETRY: Duration = Duration::from_millis(100);

/// One limit's slice for one key.
#[derive(Debug, Default)]
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
    // How often what was spent so far has been told, or was worth nothing any more.
    tellings: u64,
    last: Option<Answered>,
    // When something may be asked in the background again.
    not_before: Option<Instant>,
}

/// The slice that something was spent of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Spent {
    session: u64,
    tellings: u64,
}

/// What becomes of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It was spent here, and something is to be asked in the background.
    Spent(Verdict, Spent, Option<Ask>),
    /// It was decided here, and not spent.
    Decided(Verdict),
    /// Redis has to be asked.
    Ask(Ask),
    /// Redis is being asked for this key already.
    Wait,
}

impl Slice {
    /// No slice, in a new session.
    pub(super) fn new(session: u64) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    /// Spends, or says what to do instead. With `checks` it never spends.
    pub(super) fn take(
        &mut self,
        quota: &Quota,
        (cost, checks): (u64, bool),
        now: Instant,
        number: impl FnOnce() -> u64,
    ) -> Step {
        if checks && let Some(verdict) = self.look(quota, cost, now) {
            return Step::Decided(verdict);
        }
        if cost <= self.rest(now) {
            self.spent += cost;
            let spent = Spent {
                session: self.session,
                tellings: self.tellings,
            };
            let ask = self.is_low(now).then(|| {
                self.adapt(quota, 0, now);
                self.ask(0, self.rest(now), number())
            });
            return Step::Spent(self.verdict(quota, now), spent, ask);
        }
        if self.asked.is_some() {
            self.waiting += cost;
            return Step::Wait;
        }
        if let Some(last) = &mut self.last
            && let Some(refusal) = last.refusal(quota, cost, now)
        {
            return Step::Decided(refusal);
        }
        self.adapt(quota, cost, now);
        let ask = self.ask(cost, 0, number());
        Step::Ask(Ask { checks, ..ask })
    }

    /// Returns the verdict on a cost by the rest of the slice or the last refusal, if either decides. Spends no unit.
    pub(super) fn look(&mut self, quota: &Quota, cost: u64, now: Instant) -> Option<Verdict> {
        if cost <= self.rest(now) {
            return Some(self.verdict(quota, now));
        }
        self.last.as_mut()?.refusal(quota, cost, now)
    }

    /// Returns units that were spent. Units that Redis was told of since stay spent: the slice of today may be of another window.
    pub(super) fn put_back(&mut self, cost: u64, spent: Spent) {
        if self.session == spent.session && self.tellings == spent.tellings {
            self.spent -= cost;
        }
    }

    /// Notes the answer to what was asked last.
    pub(super) fn answered(&mut self, lent: Lent, sent: Instant, received: Instant) {
        let Some(ask) = self.asked.take() else {
            return;
        };
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
        self.last = Some(Answered::new(
            &ask,
            lent,
            self.last.as_ref(),
            sent,
            received,
        ));
    }

    /// Notes that there was no answer.
    pub(super) fn failed(&mut self, now: Instant) {
        self.asked = None;
        self.is_void = false;
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

    /// Settles, and returns the units that are not needed: all, unless requests have come since the last answer. Only requests borrow
    /// more, so that an idle gateway holds no units that are missing elsewhere.
    pub(super) fn settle(&mut self, quota: &Quota, now: Instant, number: u64) -> Ask {
        self.adapt(quota, 0, now);
        if self.last.is_some_and(|last| last.spent == self.spent) {
            self.size = 0;
        }
        let kept = self.rest(now).min(self.size);
        self.ask_for(kept, 0, kept, number)
    }

    /// Settles, and gives back all.
    pub(super) fn end(&mut self, number: u64) -> Ask {
        self.size = 0;
        self.ask(0, 0, number)
    }

    /// Nothing holds any more that Redis was asked before, and nothing is spent until it is asked again.
    pub(super) fn forget(&mut self) {
        self.allowance = self.spent;
        self.tellings += 1;
        self.last = None;
        self.is_void = self.asked.is_some();
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// What a request is told whose cost has just been spent.
    fn verdict(&self, quota: &Quota, now: Instant) -> Verdict {
        let (rest, unsettled) = (self.allowance - self.spent, self.spent - self.settled);
        match &self.last {
            Some(last) => last.spent(quota, rest, unsettled, now),
            // Nothing is spent before something was answered.
            None => Verdict {
                allowed: true,
                remaining: rest,
                ..Verdict::default()
            },
        }
    }

    /// Begins to ask for a slice of the right size.
    fn ask(&mut self, cost: u64, kept: u64, call: u64) -> Ask {
        self.ask_for(self.size, cost, kept, call)
    }

    /// Begins to ask for a slice of the size `wanted`. Units that are not kept are not spent any more, whether an answer comes or not.
    fn ask_for(&mut self, wanted: u64, cost: u64, kept: u64, call: u64) -> Ask {
        self.allowance = self.spent + kept;
        self.tellings += 1;
        self.waiting = 0;
        let ask = Ask {
            cost,
            session: self.session,
            call,
            spent: self.spent,
            unsettled: self.spent - self.settled,
            kept,
            lapse: self.lapse,
            wanted,
            checks: false,
        };
        self.asked = Some(ask);
        ask
    }

    /// What can be spent.
    pub(super) fn rest(&self, now: Instant) -> u64 {
        if self.ends.is_some_and(|ends| now < ends) {
            self.allowance.saturating_sub(self.spent)
        } else {
            0
        }
    }

    /// Whether more should be borrowed, before the slice is used up. Where Redis had little left it is asked when this is
    /// spent.
    fn is_low(&self, now: Instant) -> bool {
        let is_worth_it = |last: &Answered| last.lent.left >= last.cost.max(self.size / 4);
        4 * self.rest(now) < self.size
            && self.may_ask(now)
            && self.last.as_ref().is_some_and(is_worth_it)
    }

    fn may_ask(&self, now: Instant) -> bool {
        self.asked.is_none() && self.not_before.is_none_or(|time| now >= time)
    }

    /// Adapts the size to what was spent since the last answer, and `cost` now. The size doubles at most, or grows fourfold while
    /// it is little of the whole. Where Redis had less than was wanted, the demand is not known, so the size stays.
    fn adapt(&mut self, quota: &Quota, cost: u64, now: Instant) {
        if let Some(last) = &self.last {
            let elapsed = now.saturating_duration_since(last.sent);
            let used = u128::from(self.spent.saturating_sub(last.spent) + cost);
            let demand = used * SUPPLY.as_micros() / elapsed.as_micros().max(1);
            let demand = u64::try_from(demand).unwrap_or(u64::MAX);
            if elapsed >= HORIZON {
                self.size = self.size.min(demand);
            } else if !last.is_short {
                let growth = if self.size < quota.capacity() / LITTLE {
                    4
                } else {
                    2
                };
                self.size = demand.clamp(self.size / 2, (growth * self.size).max(1));
            }
        }
        self.size = self.size.max(self.waiting).min(quota.capacity());
    }
}

#[cfg(test)]
mod tests;
