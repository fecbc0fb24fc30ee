//! A debt that is paid off continuously: the arithmetic that both buckets share.
//!
//! A unit of cost weighs `weight`, and `pay` of it is paid off each microsecond, so that a rate of n per P is exact in
//! integers: `weight / pay = P / n`.
//!
//! A cost that is known afterwards may bring the debt above the capacity: then nothing is admitted until enough of it is
//! paid off. A debt is bounded by what is still exact in integers; [`Meter::new`] chooses weights that leave room for
//! [`HEADROOM`] times the capacity, where the rate allows that.
//!
//! The other writing of this file is `lua/debt.lua`.

use crate::Verdict;
use crate::quota::{MAX_EXACT, MAX_SPAN, MAX_WINDOW, Micros, QuotaError, Rate, nonzero};

/// So many times the capacity can be owed, if weights fit that are exact to one part in a million.
const HEADROOM: u64 = 1_000;

/// What is owed under one key, as of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Where the exact fraction does not fit, the rate is rounded down, by less than one part in a million, so that the
    /// limit gets stricter and never looser. `what` is the capacity's name in YAML, for errors.
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

    /// As [`crate::Algorithm::divided`]: less capacity, paid off more slowly.
    pub(crate) fn divided(&self, parts: u64) -> Self {
        let parts = parts.max(1);
        let capacity = (self.capacity / parts).max(1);
        // This meter's rate is `pay` per `weight` us. The span that does not fit a rate is cut, with its count.
        let span = u128::from(self.weight) * u128::from(parts);
        let per = span.min(u128::from(MAX_WINDOW));
        let count = (u128::from(self.pay) * per / span).max(1);
        let number = |number: u128| u64::try_from(number).unwrap_or(MAX_WINDOW);
        let rate = Rate {
            count: number(count),
            per: number(per),
        };
        // Whatever fits, less fits too; were it not so, the whole would be too strict rather than too loose.
        Self::new("capacity", capacity, rate).unwrap_or(Self {
            capacity,
            full: (capacity * self.weight).div_ceil(self.pay),
            ..*self
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

    /// How many units are paid off in `span` us, rounded up.
    pub fn paid_in(&self, span: Micros) -> u64 {
        let paid = (u128::from(span) * u128::from(self.pay)).div_ceil(u128::from(self.weight));
        u64::try_from(paid).unwrap_or(MAX_EXACT)
    }

    /// Decides whether `cost` fits, as [`crate::Algorithm::check`].
    pub(crate) fn check(&self, debt: &mut Debt, cost: u64, now: Micros) -> Verdict {
        if debt.at > now + self.full {
            debt.at = now;
            *debt = self.settle(debt, now);
        }
        let settled = self.settle(debt, now);
        let full = self.capacity * self.weight;
        let missing = (settled.owed + cost * self.weight).saturating_sub(full);
        Verdict {
            allowed: missing == 0,
            settling: false,
            remaining: full.saturating_sub(settled.owed) / self.weight,
            reset: self.time_to_pay(&settled, settled.owed, now),
            retry_after: self.time_to_pay(&settled, missing, now),
            delay: 0,
        }
    }

    /// Charges `cost`, as [`crate::Algorithm::commit`].
    pub(crate) fn commit(&self, debt: &mut Debt, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(debt, cost, now);
        verdict.remaining -= cost;
        verdict.reset = self.time_to_pay(debt, debt.owed, now);
    }

    /// Charges `cost` whether or not it fits, as [`crate::Algorithm::charge`].
    pub(crate) fn charge(&self, debt: &mut Debt, cost: u64, now: Micros) {
        *debt = self.settle(debt, now);
        let owed = debt.owed.saturating_add(cost.saturating_mul(self.weight));
        debt.owed = owed.min(self.most_owed());
        let beyond = debt.owed.saturating_sub(self.capacity * self.weight);
        debt.beyond = debt.beyond.max(beyond);
    }

    /// Takes `cost` back, as [`crate::Algorithm::give_back`]. Who came first is paid off first: so much of the charge is
    /// still owed as will be paid off until `receipt`, and the rest was paid off in others' place.
    pub(crate) fn give_back(&self, debt: &mut Debt, cost: u64, receipt: Micros, now: Micros) {
        self.check(debt, cost, now);
        let settled = self.settle(debt, now);
        // The receipt was rounded up.
        let left = receipt.saturating_sub(settled.at + 1).min(self.full);
        let unpaid = (left * self.pay).min(cost * self.weight);
        if unpaid > 0 {
            *debt = settled;
            debt.owed = debt.owed.saturating_sub(unpaid);
            debt.beyond = debt.beyond.min(debt.owed);
        }
    }

    /// By how much the debt is above the capacity, in units rounded up, as [`crate::Algorithm::excess`].
    pub(crate) fn excess(&self, debt: &Debt, now: Micros) -> u64 {
        let owed = self.settle(debt, now).owed;
        let excess = owed.saturating_sub(self.capacity * self.weight);
        excess.div_ceil(self.weight)
    }

    /// The time at which a debt is paid off at this meter's rate.
    pub(crate) fn paid(&self, debt: &Debt) -> Micros {
        let (owed, _) = self.reweigh(debt);
        debt.at + owed.div_ceil(self.pay)
    }

    /// The largest debt that stays exact, in this meter's weights: also with one payment more, and no longer than
    /// [`MAX_SPAN`]. What is charged beyond it is not noted.
    fn most_owed(&self) -> u64 {
        let exact = MAX_EXACT - self.pay;
        let longest = MAX_SPAN.saturating_mul(self.pay);
        exact.min(longest).max(self.capacity * self.weight)
    }

    /// What is owed at `now`, in this meter's weights, and from when on it is paid off (`now`, or a stamp ahead of it).
    fn settle(&self, debt: &Debt, now: Micros) -> Debt {
        let (owed, beyond) = self.reweigh(debt);
        let elapsed = now.saturating_sub(debt.at);
        let paid = elapsed.min(owed.div_ceil(self.pay)) * self.pay;
        Debt {
            owed: owed.saturating_sub(paid),
            at: debt.at.max(now),
            weight: self.weight,
            beyond: beyond.saturating_sub(paid),
        }
    }

    /// How long until `weight` of what a settled debt owes is paid off, in us from `now`; nothing takes no time.
    const fn time_to_pay(&self, settled: &Debt, weight: u64, now: Micros) -> Micros {
        if weight == 0 {
            return 0;
        }
        settled.at - now + weight.div_ceil(self.pay)
    }

    /// What is owed in this meter's weights, and what of it was charged beyond the capacity. A quota that was changed
    /// applies to keys that have state: a smaller one does not lock them out for longer than its own period, unless a
    /// cost did that was known afterwards.
    fn reweigh(&self, debt: &Debt) -> (u64, u64) {
        let full = self.capacity * self.weight;
        let within = debt.owed.saturating_sub(debt.beyond);
        let within = self.weighed(within, debt.weight, full);
        let beyond = self.weighed(debt.beyond, debt.weight, self.most_owed() - within);
        (within + beyond, beyond)
    }

    /// A part of a debt whose units weighed `weight`, in this meter's weights: rounded up, and `most` at most.
    fn weighed(&self, owed: u64, weight: u64, most: u64) -> u64 {
        if owed == 0 || weight == self.weight {
            return owed.min(most);
        }
        let whole = owed / weight;
        if whole >= most / self.weight {
            return most;
        }
        let rest = owed % weight;
        let part = if rest <= MAX_EXACT / self.weight {
            (rest * self.weight).div_ceil(weight)
        } else {
            self.weight
        };
        whole * self.weight + part
    }
}

/// The greatest capacity that fits this rate; 0 if none does. Whatever fits, less fits too.
fn largest_capacity(rate: Rate) -> u64 {
    let (mut fits, mut too_large) = (0, MAX_SPAN + 1);
    while too_large - fits > 1 {
        let middle = fits.midpoint(too_large);
        if weigh(middle, rate).is_some() {
            fits = middle;
        } else {
            too_large = middle;
        }
    }
    fits
}

/// `weight` and `pay` with `weight / pay >= P / n`, equal if that fits, else closer than one part in a million; nothing
/// for a capacity that does not fit, or that is not paid off within [`MAX_SPAN`]. They leave room for debts beyond the
/// capacity, as much as fits up to [`HEADROOM`].
fn weigh(capacity: u64, rate: Rate) -> Option<(u64, u64)> {
    let span = u128::from(capacity) * u128::from(rate.per);
    if capacity > MAX_SPAN || span > u128::from(MAX_SPAN) * u128::from(rate.count) {
        return None;
    }
    [HEADROOM, 100, 10, 1]
        .into_iter()
        .find_map(|times| weigh_up_to(capacity.checked_mul(times)?, rate))
}

/// As [`weigh`], so that debts of up to `units` are exact.
fn weigh_up_to(units: u64, rate: Rate) -> Option<(u64, u64)> {
    let common = gcd(rate.count, rate.per);
    let (weight, pay) = (rate.per / common, rate.count / common);
    let fits = |weight: u64, pay: u64| {
        let owed = u128::from(units) * u128::from(weight);
        owed + u128::from(pay) <= u128::from(MAX_EXACT)
    };
    if fits(weight, pay) {
        return Some((weight, pay));
    }
    // The greatest payment whose weight still fits; the weight rounds up, by less than one part in itself.
    let room = MAX_EXACT.checked_sub(pay)? / units;
    let pay = u128::from(room) * u128::from(rate.count) / u128::from(rate.per);
    let weight = (pay * u128::from(rate.per)).div_ceil(u128::from(rate.count));
    let (weight, pay) = (u64::try_from(weight).ok()?, u64::try_from(pay).ok()?);
    (pay > 0 && weight > 1_000_000 && fits(weight, pay)).then_some((weight, pay))
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
