//! A debt that is paid off continuously: the arithmetic that both buckets share.
//!
//! A unit of cost weighs `weight`, and `pay` of it is paid off each microsecond. So a rate of n per P is exact in integers:
//! `weight / pay = P / n`.
//!
//! A cost that is known afterwards may bring the debt above the capacity: then nothing is admitted until enough of it is
//! paid off. A debt is bounded by what is still exact in integers. [`Meter::new`] chooses weights that leave room for a thousand
//! times the capacity, where the rate allows that.
//!
//! Quotas of several plans may decide about one key, and a quota may change. Each quota counts the debt by its own numbers. The
//! debt is paid off at the quota's own rate. At the time of the last charge the quota counts at most its own capacity of the debt.
//! So a debt that was made under a larger quota locks nobody out for longer than the smaller quota's own period. What a quota does
//! not count is not lost. Its charge keeps the whole debt beside what it counts ([`Debt::whole`]), as of the time when it was
//! whole. Every other quota pays the whole debt off at its own rate from then on. The whole debt is dropped when what is counted is
//! as much.
//!
//! The other writing of this file is `lua/debt.lua`.

mod pace;
mod rate;
mod weights;

pub use pace::Pace;
use weights::{largest_capacity, weigh, weighed, weighed_down};

use crate::Verdict;
use crate::numbers::{MAX_EXACT, MAX_SPAN, MAX_WINDOW, Micros, QuotaError, Rate, nonzero};

/// What is owed under one key, as of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// What is owed, in weights of the time when it was written.
    pub owed: u64,
    /// When that was, in us.
    pub at: Micros,
    /// What one unit of cost weighed then; 0 only in a fresh state.
    pub weight: u64,
    /// How much of `owed` was beyond the capacity when it was charged. It is paid off first. A smaller quota does not
    /// forgive it.
    pub beyond: u64,
    /// The whole debt, if the quota that charged last counted less of it: boxed, since few keys have one.
    pub whole: Option<Box<WholeDebt>>,
}

/// A debt with all that was charged to it since a time, and nothing paid off since then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeDebt {
    /// What was owed at that time, and what was charged since, in weights of that time.
    pub owed: u64,
    /// That time, in us; at most the debt's own.
    pub at: Micros,
    /// What one unit of cost weighed then, at least 1.
    pub weight: u64,
    /// How much of `owed` was charged beyond the capacity.
    pub beyond: u64,
}

impl Debt {
    /// Moves stamps that are ahead of the clock.
    fn step_back(&mut self, now: Micros) {
        self.at = now;
        if let Some(whole) = &mut self.whole {
            whole.at = whole.at.min(now);
        }
    }

    /// The debt as the one that is whole, if a quota is going to count less of it.
    const fn as_whole(&self) -> WholeDebt {
        WholeDebt {
            owed: self.owed,
            at: self.at,
            weight: self.weight,
            beyond: self.beyond,
        }
    }
}

/// What a quota counts of a debt at a time, in its own weights.
#[derive(Clone, Copy)]
struct Settled {
    owed: u64,
    /// From when on it is paid off: that time, or a stamp ahead of it.
    at: Micros,
    beyond: u64,
    /// What is to be kept beside it if it is written.
    whole: Option<WholeDebt>,
}

/// A capacity and the rate at which it is paid off, as integers that stay below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    capacity: u64,
    weight: u64,
    pay: u64,
    full: Micros,
}

impl Meter {
    /// A meter for `capacity` units of cost, paid off at `rate`.
    ///
    /// Where the exact fraction does not fit, the rate is rounded down, by less than one part in a million. So the limit gets
    /// stricter and never looser. `what` is the capacity's name in YAML, for errors.
    ///
    /// # Errors
    ///
    /// The capacity or the rate is 0, or they are too large together.
    pub fn new(what: &'static str, capacity: u64, rate: Rate) -> Result<Self, QuotaError> {
        nonzero(what, capacity)?;
        nonzero("rate", rate.count)?;
        nonzero("rate", rate.per)?;
        if rate.per > MAX_WINDOW {
            return Err(QuotaError::LongWindow);
        }
        let (weight, pay) = weigh(capacity, rate).ok_or_else(|| {
            let largest = largest_capacity(rate);
            QuotaError::TooLarge { what, largest }
        })?;
        Ok(Self {
            capacity,
            weight,
            pay,
            full: (capacity * weight).div_ceil(pay),
        })
    }

    /// The largest debt at which a request can be admitted, in units of cost.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What the script takes: capacity, weight, pay, and the time in which a full debt is paid off, in us.
    pub const fn numbers(&self) -> [u64; 4] {
        [self.capacity, self.weight, self.pay, self.full]
    }

    /// The time in which a full debt is paid off, in us.
    pub const fn period(&self) -> Micros {
        self.full
    }

    /// How many units are paid off in `span` us, rounded up.
    pub fn paid_in(&self, span: Micros) -> u64 {
        let paid = (u128::from(span) * u128::from(self.pay)).div_ceil(u128::from(self.weight));
        u64::try_from(paid).unwrap_or(MAX_EXACT)
    }

    /// Returns the wait of a cost, given the refusal of a smaller one, as [`crate::Algorithm::wait_of`]. At the reset
    /// any cost fits. A smaller cost leaves room, and fits earlier by the time in which that room is paid off.
    pub(crate) fn wait_of(&self, cost: u64, smaller: &Verdict) -> Micros {
        let room = self.capacity.saturating_sub(cost) * self.weight / self.pay;
        smaller.retry_after.max(smaller.reset.saturating_sub(room))
    }

    /// Decides whether `cost` fits, as [`crate::Algorithm::check`].
    pub(crate) fn check(&self, debt: &mut Debt, cost: u64, now: Micros) -> Verdict {
        if debt.at > now + self.full {
            debt.step_back(now);
        }
        let settled = self.settle(debt, now);
        let full = self.capacity * self.weight;
        let missing = (settled.owed + cost * self.weight).saturating_sub(full);
        Verdict {
            allowed: missing == 0,
            settling: false,
            remaining: self.remaining(settled.owed),
            reset: self.time_to_pay(settled.owed, settled.at, now),
            retry_after: self.time_to_pay(missing, settled.at, now),
            delay: 0,
        }
    }

    /// Charges `cost`, as [`crate::Algorithm::commit`].
    pub(crate) fn commit(&self, debt: &mut Debt, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(debt, cost, now);
        verdict.remaining -= cost;
        let mut owed = debt.owed;
        if debt.whole.is_some() {
            // Of a debt that was larger, as much is counted again as at any charge.
            owed = self.settle(debt, now).owed;
            verdict.remaining = self.remaining(owed);
        }
        verdict.reset = self.time_to_pay(owed, debt.at, now);
    }

    /// Charges `cost` whether or not it fits, as [`crate::Algorithm::charge`].
    pub(crate) fn charge(&self, debt: &mut Debt, cost: u64, now: Micros) {
        let settled = self.settle(debt, now);
        let owed = settled
            .owed
            .saturating_add(cost.saturating_mul(self.weight));
        let owed = owed.min(self.most_owed());
        let full = self.capacity * self.weight;
        let beyond = settled.beyond.max(owed.saturating_sub(full));
        let whole = settled.whole.map(|whole| {
            let owed = whole.owed.saturating_add(cost.saturating_mul(whole.weight));
            let owed = owed.min(MAX_EXACT);
            let more = weighed(
                beyond - settled.beyond,
                self.weight,
                whole.weight,
                owed - whole.beyond,
            );
            WholeDebt {
                owed,
                beyond: whole.beyond + more,
                ..whole
            }
        });
        *debt = self.debt(owed, settled.at, beyond, whole);
    }

    /// Takes `cost` back, as [`crate::Algorithm::give_back`]. The earliest charges are paid off first. So much of this charge is
    /// still owed as will be paid off until `receipt`. The rest was paid off in place of later charges.
    pub(crate) fn give_back(&self, debt: &mut Debt, cost: u64, receipt: Micros, now: Micros) {
        self.check(debt, cost, now);
        let settled = self.settle(debt, now);
        // The receipt was rounded up.
        let left = receipt.saturating_sub(settled.at + 1).min(self.full);
        let unpaid = (left * self.pay).min(cost * self.weight);
        if unpaid > 0 && settled.owed > 0 {
            let owed = settled.owed.saturating_sub(unpaid);
            let whole = settled.whole.map(|whole| {
                let unpaid = weighed_down(unpaid, self.weight, whole.weight);
                let owed = whole.owed.saturating_sub(unpaid);
                WholeDebt {
                    owed,
                    beyond: whole.beyond.min(owed),
                    ..whole
                }
            });
            *debt = self.debt(owed, settled.at, settled.beyond.min(owed), whole);
        }
    }

    /// By how much the debt is above the capacity, in units rounded up, as [`crate::Algorithm::excess`].
    pub(crate) fn excess(&self, debt: &Debt, now: Micros) -> u64 {
        let owed = self.settle(debt, now).owed;
        let excess = owed.saturating_sub(self.capacity * self.weight);
        excess.div_ceil(self.weight)
    }

    /// The time at which a debt is paid off at this meter's rate. If there is a whole debt, the later time of the two counts. The
    /// whole debt is paid off at this rate, or at the rate under which it was made, whichever is sooner. The latter rate is at
    /// least 1 of its weights each microsecond.
    pub(crate) fn paid(&self, debt: &Debt) -> Micros {
        let (owed, _) = self.counted(debt);
        let paid = debt.at + owed.div_ceil(self.pay);
        let Some(whole) = &debt.whole else {
            return paid;
        };
        let (owed, _) = self.reweighed(whole.owed, whole.beyond, whole.weight);
        paid.max(whole.at + self.span(owed).min(whole.owed))
    }

    /// The largest debt that stays exact, in this meter's weights: also with one payment more, and no longer than
    /// [`MAX_SPAN`]. What is charged beyond it is not noted.
    fn most_owed(&self) -> u64 {
        let exact = MAX_EXACT - self.pay;
        let longest = MAX_SPAN.saturating_mul(self.pay);
        exact.min(longest).max(self.capacity * self.weight)
    }

    /// What is counted of a debt at `now`.
    fn settle(&self, debt: &Debt, now: Micros) -> Settled {
        let (owed, beyond) = self.counted(debt);
        let elapsed = now.saturating_sub(debt.at);
        let paid = self.paid_of(owed, elapsed);
        Settled {
            owed: owed.saturating_sub(paid),
            at: debt.at.max(now),
            beyond: beyond.saturating_sub(paid),
            whole: self.uncounted(debt, owed, elapsed),
        }
    }

    /// Whether all of a debt is counted, as it stands: so it is as long as one quota decides about a key.
    const fn counts_all(&self, debt: &Debt) -> bool {
        let is_own = debt.weight == self.weight || debt.owed == 0;
        is_own && debt.owed <= self.capacity * self.weight && debt.whole.is_none()
    }

    /// What is counted of a debt at its own time, and what of that was charged beyond the capacity.
    fn counted(&self, debt: &Debt) -> (u64, u64) {
        if self.counts_all(debt) {
            return (debt.owed, debt.beyond.min(debt.owed));
        }
        let (all, beyond) = self.reweighed(debt.owed, debt.beyond, debt.weight);
        let owed = self.at_most_full(all, beyond);
        match &debt.whole {
            None => (owed, beyond.min(owed)),
            Some(whole) => {
                let (all, whole_beyond) = self.whole_at(whole, debt.at);
                let whole_owed = self.at_most_full(all, whole_beyond);
                let owed = owed.max(whole_owed);
                (owed, beyond.max(whole_beyond).min(owed))
            }
        }
    }

    /// The whole debt that is kept beside a debt. Of the debt, `counted` is counted at its own time, and it is paid off for
    /// `elapsed` before it is written. A whole debt is kept if it is more than `counted` and is not paid off within `elapsed`.
    fn uncounted(&self, debt: &Debt, counted: u64, elapsed: Micros) -> Option<WholeDebt> {
        if self.counts_all(debt) {
            return None;
        }
        let leaves_more = |all: u64| all > counted && self.span(all) > elapsed;
        let (all, _) = self.reweighed(debt.owed, debt.beyond, debt.weight);
        match &debt.whole {
            Some(whole) if leaves_more(self.whole_at(whole, debt.at).0) => {
                // Of three quotas the middle one has counted less as well: its debt, which is smaller, is covered by the whole
                // one from its own time on.
                let at = if leaves_more(all) { debt.at } else { whole.at };
                Some(WholeDebt { at, ..**whole })
            }
            _ => leaves_more(all).then(|| debt.as_whole()),
        }
    }

    /// A whole debt as of a later time, in this meter's weights, and what of it was charged beyond the capacity.
    fn whole_at(&self, whole: &WholeDebt, at: Micros) -> (u64, u64) {
        let (owed, beyond) = self.reweighed(whole.owed, whole.beyond, whole.weight);
        let paid = self.paid_of(owed, at.saturating_sub(whole.at));
        let beyond = beyond.saturating_sub(paid);
        // Of what is not known it is not known either what is left.
        if owed >= self.most_known() {
            return (owed, beyond);
        }
        (owed.saturating_sub(paid), beyond)
    }

    /// How much of `owed` is paid off within `elapsed`: at least all of it if that is long enough.
    fn paid_of(&self, owed: u64, elapsed: Micros) -> u64 {
        elapsed.min(owed.div_ceil(self.pay)) * self.pay
    }

    /// At most the capacity, but all that was charged beyond, as far as it is noted.
    fn at_most_full(&self, owed: u64, beyond: u64) -> u64 {
        let owed = (owed - beyond).min(self.capacity * self.weight) + beyond;
        owed.min(self.most_owed())
    }

    /// What stands for all that would not be exact in this meter's weights: more than the capacity.
    fn most_known(&self) -> u64 {
        (MAX_EXACT - self.pay).max(self.capacity * self.weight + 1)
    }

    /// How long it takes to pay `owed` off, in us: [`MAX_SPAN`] if that is not known.
    fn span(&self, owed: u64) -> Micros {
        if owed >= self.most_known() {
            return MAX_SPAN;
        }
        owed.div_ceil(self.pay).min(MAX_SPAN)
    }

    /// A debt whose units weighed `weight`, in this meter's weights, and what of it was charged beyond the capacity.
    fn reweighed(&self, owed: u64, beyond: u64, weight: u64) -> (u64, u64) {
        let most = self.most_known();
        let within = owed.saturating_sub(beyond);
        let beyond = weighed(beyond, weight, self.weight, most);
        let within = weighed(within, weight, self.weight, most - beyond);
        (within + beyond, beyond)
    }

    /// How much is left beside what is owed, in units.
    const fn remaining(&self, owed: u64) -> u64 {
        (self.capacity * self.weight).saturating_sub(owed) / self.weight
    }

    /// How long until `weight` of what is owed is paid off, which begins at `at`, in us from `now`; nothing takes no time.
    const fn time_to_pay(&self, weight: u64, at: Micros, now: Micros) -> Micros {
        if weight == 0 {
            return 0;
        }
        at - now + weight.div_ceil(self.pay)
    }

    fn debt(&self, owed: u64, at: Micros, beyond: u64, whole: Option<WholeDebt>) -> Debt {
        Debt {
            owed,
            at,
            weight: self.weight,
            beyond,
            whole: whole.map(Box::new),
        }
    }
}
