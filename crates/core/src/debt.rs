//! A debt that is paid off continuously: the arithmetic that both buckets share.
//!
//! A unit of cost weighs `weight`, and `pay` of it is paid off each microsecond, so that a rate of n per P is exact in
//! integers: `weight / pay = P / n`. The other writing of this file is `lua/debt.lua`.

use crate::Verdict;
use crate::quota::{MAX_EXACT, MAX_SPAN, MAX_WINDOW, Micros, QuotaError, Rate, nonzero};

/// What is owed under one key, as of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// What is owed, in weights of the time when it was written.
    pub owed: u64,
    /// When that was, in us.
    pub at: Micros,
    /// What one unit of cost weighed then; 0 only in a fresh state.
    pub weight: u64,
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

    /// The most that may be owed, in units of cost.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// What the script takes: capacity, weight, pay, and the time in which a full debt is paid off, in us.
    pub const fn numbers(&self) -> [u64; 4] {
        [self.capacity, self.weight, self.pay, self.full]
    }

    /// Decides whether `cost` fits, as [`crate::Algorithm::check`].
    pub(crate) fn check(&self, debt: &mut Debt, cost: u64, now: Micros) -> Verdict {
        if debt.at > now + self.full {
            debt.at = now;
            *debt = self.settle(debt, now);
        }
        let settled = self.settle(debt, now);
        let room = self.capacity * self.weight - settled.owed;
        let needed = cost * self.weight;
        let missing = needed.saturating_sub(room);
        Verdict {
            allowed: missing == 0,
            settling: false,
            remaining: room / self.weight,
            reset: self.time_to_pay(&settled, settled.owed, now),
            retry_after: self.time_to_pay(&settled, missing, now),
            delay: 0,
        }
    }

    /// Charges `cost`, as [`crate::Algorithm::commit`].
    pub(crate) fn commit(&self, debt: &mut Debt, cost: u64, now: Micros, verdict: &mut Verdict) {
        *debt = self.settle(debt, now);
        debt.owed += cost * self.weight;
        verdict.remaining -= cost;
        verdict.reset = self.time_to_pay(debt, debt.owed, now);
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
        }
    }

    /// The time at which a debt of this meter's weight is paid off.
    pub(crate) const fn paid(&self, debt: &Debt) -> Micros {
        debt.at + debt.owed.div_ceil(self.pay)
    }

    /// What is owed at `now`, in this meter's weights, and from when on it is paid off (`now`, or a stamp ahead of it).
    fn settle(&self, debt: &Debt, now: Micros) -> Debt {
        let elapsed = now.saturating_sub(debt.at).min(self.full);
        Debt {
            owed: self.reweigh(debt).saturating_sub(elapsed * self.pay),
            at: debt.at.max(now),
            weight: self.weight,
        }
    }

    /// How long until `weight` of what a settled debt owes is paid off, in us from `now`; nothing takes no time.
    const fn time_to_pay(&self, settled: &Debt, weight: u64, now: Micros) -> Micros {
        if weight == 0 {
            return 0;
        }
        settled.at - now + weight.div_ceil(self.pay)
    }

    /// The debt in this meter's weights, rounded up, and clamped to the capacity: a quota that was changed applies to
    /// keys that have state, and a smaller one does not lock them out for longer than its own period.
    fn reweigh(&self, debt: &Debt) -> u64 {
        let full = self.capacity * self.weight;
        if debt.weight == self.weight || debt.weight == 0 {
            return debt.owed.min(full);
        }
        let whole = debt.owed / debt.weight;
        if whole >= self.capacity {
            return full;
        }
        let rest = debt.owed % debt.weight;
        let part = if rest <= MAX_EXACT / self.weight {
            (rest * self.weight).div_ceil(debt.weight)
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
/// for a capacity that does not fit, or that is not paid off within [`MAX_SPAN`].
fn weigh(capacity: u64, rate: Rate) -> Option<(u64, u64)> {
    let span = u128::from(capacity) * u128::from(rate.per);
    if capacity > MAX_SPAN || span > u128::from(MAX_SPAN) * u128::from(rate.count) {
        return None;
    }
    let common = gcd(rate.count, rate.per);
    let (weight, pay) = (rate.per / common, rate.count / common);
    let fits = |weight: u64, pay: u64| {
        let owed = u128::from(capacity) * u128::from(weight);
        owed + u128::from(pay) <= u128::from(MAX_EXACT)
    };
    if fits(weight, pay) {
        return Some((weight, pay));
    }
    // The greatest payment whose weight still fits; the weight rounds up, by less than one part in itself.
    let room = MAX_EXACT.checked_sub(pay)? / capacity;
    let pay = u128::from(room) * u128::from(rate.count) / u128::from(rate.per);
    let weight = (pay * u128::from(rate.per)).div_ceil(u128::from(rate.count));
    let (weight, pay) = (u64::try_from(weight).ok()?, u64::try_from(pay).ok()?);
    (pay > 0 && weight > 1_000_000 && fits(weight, pay)).then_some((weight, pay))
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
