//! One slice: its spendable units, and the calls to Redis that it needs. Times and call numbers are arguments.

use std::time::{Duration, Instant};

use tidegate_core::{Micros, Quota, Verdict};

use super::answered::{Answered, HORIZON};
use super::lender::{Ask, Lent};

/// The time for which a slice should last: until it is settled, and a little longer.
const SUPPLY: Duration = Duration::from_secs(3);

/// A slice smaller than the quota divided by this number is small, and may grow faster.
const LITTLE: u64 = 64;

/// The time without calls in the background after a call that failed.
const RETRY: Duration = Duration::from_millis(100);

/// One limit's slice for one key.
#[derive(Debug, Default)]
pub(super) struct Slice {
    session: u64,
    // The units that were spent since the session began.
    spent: u64,
    // The spent units that Redis has charged.
    settled: u64,
    // The units that may be spent in the session, including spent units.
    allowance: u64,
    // The time from which the remaining units must not be spent. This time is earlier than `lapse`.
    ends: Option<Instant>,
    // The time at which the slice lapses, by Redis's clock.
    lapse: Micros,
    // The wanted size of the slice; 0 for a key that is seldom used.
    size: u64,
    // The call that is not answered yet.
    call: Option<Ask>,
    // Whether the answer to this call is void, so that it is ignored.
    is_void: bool,
    // The sum of the costs of the requests that wait for the answer.
    waiting: u64,
    // The number of calls that sent the spent units to Redis, plus the number of answers that became void.
    tellings: u64,
    last: Option<Answered>,
    // The earliest time of the next call in the background.
    not_before: Option<Instant>,
}

/// The slice that units were spent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Spent {
    session: u64,
    tellings: u64,
}

/// The next step of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The cost was spent from the slice. The call, if any, is to be made in the background.
    Spent(Verdict, Spent, Option<Ask>),
    /// The request was decided in this process, and no unit was spent.
    Decided(Verdict),
    /// Redis decides the request by this call.
    Ask(Ask),
    /// A call about this key is under way already.
    Wait,
}

impl Slice {
    /// Creates an empty slice, in a new session.
    pub(super) fn new(session: u64) -> Self {
        Self {
            session,
            ..Self::default()
        }
    }

    /// Spends the cost, or returns the step to do instead. With `checks` it never spends.
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
        // A request that another limit has refused does not count as demand.
        let demand = if checks { 0 } else { cost };
        if self.call.is_some() {
            self.waiting += demand;
            return Step::Wait;
        }
        if let Some(last) = &mut self.last
            && let Some(refusal) = last.refusal(quota, cost, now)
        {
            return Step::Decided(refusal);
        }
        self.adapt(quota, demand, now);
        let ask = self.ask(cost, 0, number());
        Step::Ask(Ask { checks, ..ask })
    }

    /// Returns the verdict on a cost by the remaining units of the slice or by the last refusal, if either decides. Spends no unit.
    pub(super) fn look(&mut self, quota: &Quota, cost: u64, now: Instant) -> Option<Verdict> {
        if cost <= self.rest(now) {
            return Some(self.verdict(quota, now));
        }
        self.last.as_mut()?.refusal(quota, cost, now)
    }

    /// Puts back spent units. If a later call has sent their use to Redis, the units remain spent, because the present slice may be of
    /// another window.
    pub(super) fn put_back(&mut self, cost: u64, spent: Spent) {
        if self.session == spent.session && self.tellings == spent.tellings {
            self.spent -= cost;
        }
    }

    /// Records the answer to the last call.
    pub(super) fn answered(&mut self, lent: Lent, sent: Instant, received: Instant) {
        let Some(ask) = self.call.take() else {
            return;
        };
        self.settled = ask.spent;
        self.not_before = None;
        if std::mem::take(&mut self.is_void) {
            return;
        }
        self.allowance = ask.spent + lent.out;
        self.lapse = lent.lapse;
        // The term is counted from the time of sending, before Redis starts to count it. It is shortened by one part in a thousand, because
        // Redis's clock may be faster.
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

    /// Records that Redis did not answer the call.
    pub(super) fn failed(&mut self, now: Instant) {
        self.call = None;
        self.is_void = false;
        self.not_before = Some(now + RETRY);
    }

    /// Whether it is time to settle the spent units, and to return unneeded units to Redis.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        // Half of the slice's term. If it is shorter than `HORIZON`, the slice is settled after it, well before the lapse.
        let soon = Duration::from_micros(last.lent.lapse.saturating_sub(last.lent.now)) / 2;
        self.is_out(now) && self.may_ask(now) && now >= last.sent + HORIZON.min(soon)
    }

    /// Whether units of the slice are lent, or spent and not settled.
    pub(super) fn is_out(&self, now: Instant) -> bool {
        self.allowance.max(self.spent) > self.settled && self.ends.is_some_and(|ends| now < ends)
    }

    /// Whether the slice can be dropped: no units are lent or unsettled, no call is under way, and the last answer is old.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        let is_new = |last: Answered| now < last.received + HORIZON;
        !self.is_out(now) && self.call.is_none() && !self.last.is_some_and(is_new)
    }

    /// Begins a call that settles the spent units and returns unneeded units to Redis. If no unit was spent after the last call, all units
    /// are returned. Only calls for requests borrow more units, so an idle gateway keeps no units that other gateways need.
    pub(super) fn settle(&mut self, quota: &Quota, now: Instant, number: u64) -> Ask {
        self.adapt(quota, 0, now);
        if self.last.is_some_and(|last| last.spent == self.spent) {
            self.size = 0;
        }
        let kept = self.rest(now).min(self.size);
        self.ask_for(kept, 0, kept, number)
    }

    /// Begins a call that settles the spent units and returns all other units to Redis.
    pub(super) fn end(&mut self, number: u64) -> Ask {
        self.size = 0;
        self.ask(0, 0, number)
    }

    /// Makes the last answer and the call under way void. No unit is spent before the next answer.
    pub(super) fn forget(&mut self) {
        self.allowance = self.spent;
        self.tellings += 1;
        self.last = None;
        self.is_void = self.call.is_some();
    }

    pub(super) const fn is_asking(&self) -> bool {
        self.call.is_some()
    }

    /// Returns the verdict on a cost that has just been spent.
    fn verdict(&self, quota: &Quota, now: Instant) -> Verdict {
        let (rest, unsettled) = (self.allowance - self.spent, self.spent - self.settled);
        match &self.last {
            Some(last) => last.spent(quota, rest, unsettled, now),
            // No unit is spent before an answer.
            None => Verdict {
                allowed: true,
                remaining: rest,
                ..Verdict::default()
            },
        }
    }

    /// Begins a call for a slice of the size `self.size`.
    fn ask(&mut self, cost: u64, kept: u64, call: u64) -> Ask {
        self.ask_for(self.size, cost, kept, call)
    }

    /// Begins a call for a slice of the size `wanted`. Units that are not kept must not be spent any more, even if no answer comes.
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
        self.call = Some(ask);
        ask
    }

    /// Returns the units that can be spent.
    pub(super) fn rest(&self, now: Instant) -> u64 {
        if self.ends.is_some_and(|ends| now < ends) {
            self.allowance.saturating_sub(self.spent)
        } else {
            0
        }
    }

    /// Whether to borrow more before the slice is used up. If Redis had little left, the next call follows only when the slice is used up.
    fn is_low(&self, now: Instant) -> bool {
        let is_worth_it = |last: &Answered| last.lent.left >= last.cost.max(self.size / 4);
        4 * self.rest(now) < self.size
            && self.may_ask(now)
            && self.last.as_ref().is_some_and(is_worth_it)
    }

    fn may_ask(&self, now: Instant) -> bool {
        self.call.is_none() && self.not_before.is_none_or(|time| now >= time)
    }

    /// Adapts the size to the units spent since the last answer, and to `cost` now. The size doubles at most, or grows fourfold while the
    /// slice is small. If Redis had less than the wanted units, the demand is unknown, so the size does not change.
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
