//! The debt of a token bucket or of a leaky bucket, which is paid off continuously.
//!
//! A debt is counted in parts of a unit of cost. A unit has `weight` parts, and `pay` parts are paid off each microsecond. So a rate of n
//! units per P microseconds is exact in integers: `weight / pay = P / n`.
//!
//! A cost that is set by a response may bring the debt above the capacity. While the debt is above the capacity, no request is admitted. A
//! debt is bounded, so that it stays exact in integers. [`Meter::new`] chooses a weight with which a debt of a thousand times the capacity
//! is still exact, if the rate allows such a weight.
//!
//! If the quota changes, the debt keeps its units, and is paid off at the new rate from the time when it was last written.
//!
//! `lua/debt.lua` computes the same results.

mod rate;
mod weights;

use weights::{largest_capacity, weigh, weighed};

use crate::Verdict;
use crate::numbers::{MAX_EXACT, MAX_SPAN, MAX_WINDOW, Micros, QuotaError, Rate, nonzero};

/// The debt of one key, and the time at which it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// The owed parts at the time `at`.
    pub owed: u64,
    /// The time at which the debt was last written, in us.
    pub at: Micros,
    /// The number of parts per unit of cost with which `owed` was written. It is 0 only in the state of a key without charges.
    pub weight: u64,
}

/// The capacity of a bucket and the rate at which its debt is paid off, as integers whose products stay below 2^53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    capacity: u64,
    weight: u64,
    pay: u64,
    full: Micros,
}

impl Meter {
    /// Returns a meter for `capacity` units of cost, paid off at `rate`.
    ///
    /// If the exact rate does not fit the integers, it is rounded down by less than one part in a million. So the limit gets stricter and
    /// never looser. `what` is the name of the capacity in YAML, for errors.
    ///
    /// # Errors
    ///
    /// The capacity or the rate is 0, the rate's span is too long, or the capacity is too large for the rate.
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

    /// Returns the largest debt after an admission, in units of cost.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the script's numbers: capacity, weight, pay, and the us in which a full debt is paid off.
    pub const fn numbers(&self) -> [u64; 4] {
        [self.capacity, self.weight, self.pay, self.full]
    }

    /// Returns the time in which a full debt is paid off, in us.
    pub const fn period(&self) -> Micros {
        self.full
    }

    /// Returns the time in which `units` are paid off, in us.
    pub(crate) const fn time(&self, units: u64) -> Micros {
        (units * self.weight).div_ceil(self.pay)
    }

    /// Returns the units that are paid off in `span` us, rounded up.
    pub fn paid_in(&self, span: Micros) -> u64 {
        let paid = (u128::from(span) * u128::from(self.pay)).div_ceil(u128::from(self.weight));
        u64::try_from(paid).unwrap_or(MAX_EXACT)
    }

    /// Returns the `retry_after` of `cost`, given the refusal of a smaller cost ([`crate::Algorithm::wait_of`]). The whole capacity fits at
    /// the refusal's `reset`. A cost that is d units below the capacity fits earlier, by the time in which d units are paid off.
    pub(crate) fn wait_of(&self, cost: u64, smaller: &Verdict) -> Micros {
        let room = self.capacity.saturating_sub(cost) * self.weight / self.pay;
        smaller.retry_after.max(smaller.reset.saturating_sub(room))
    }

    /// Decides whether `cost` fits, as [`crate::Algorithm::check`].
    pub(crate) fn check(&self, debt: &mut Debt, cost: u64, now: Micros) -> Verdict {
        // The clock stepped back by more than a period: `at` is moved back to `now`, and the owed parts are kept.
        if debt.at > now + self.full {
            debt.at = now;
        }
        let (owed, at) = self.owed(debt, now);
        let most = self.capacity * self.weight;
        let missing = (owed + cost * self.weight).saturating_sub(most);
        Verdict {
            allowed: missing == 0,
            remaining: most.saturating_sub(owed) / self.weight,
            reset: self.time_to_pay(owed, at, now),
            retry_after: self.time_to_pay(missing, at, now),
            ..Verdict::default()
        }
    }

    /// Charges `cost`, as [`crate::Algorithm::commit`].
    pub(crate) fn commit(&self, debt: &mut Debt, cost: u64, now: Micros, verdict: &mut Verdict) {
        self.charge(debt, cost, now);
        verdict.remaining -= cost;
        verdict.reset = self.time_to_pay(debt.owed, debt.at, now);
    }

    /// Charges `cost` whether or not it fits, as [`crate::Algorithm::charge`].
    pub(crate) fn charge(&self, debt: &mut Debt, cost: u64, now: Micros) {
        let (owed, at) = self.owed(debt, now);
        let owed = owed.saturating_add(cost.saturating_mul(self.weight));
        *debt = Debt {
            owed: owed.min(self.most_owed()),
            at,
            weight: self.weight,
        };
    }

    /// Returns the units by which the debt is above the capacity, rounded up, as [`crate::Algorithm::excess`].
    pub(crate) fn excess(&self, debt: &Debt, now: Micros) -> u64 {
        let (owed, _) = self.owed(debt, now);
        let excess = owed.saturating_sub(self.capacity * self.weight);
        excess.div_ceil(self.weight)
    }

    /// Returns the time at which a debt is paid off.
    pub(crate) fn paid(&self, debt: &Debt) -> Micros {
        debt.at + self.weighed(debt).div_ceil(self.pay)
    }

    /// Returns the most parts that a debt can have. A charge cuts a larger debt to this number. Such a debt is paid off within
    /// [`MAX_SPAN`], and is still below 2^53 when rounded up to a multiple of `pay`.
    fn most_owed(&self) -> u64 {
        let exact = MAX_EXACT - self.pay;
        let longest = MAX_SPAN.saturating_mul(self.pay);
        exact.min(longest).max(self.capacity * self.weight)
    }

    /// Returns the parts that are owed at `now`, and the time at which their payment begins: `now`, or `debt.at` if that is later.
    fn owed(&self, debt: &Debt, now: Micros) -> (u64, Micros) {
        let owed = self.weighed(debt);
        let elapsed = now.saturating_sub(debt.at);
        let paid = elapsed.min(owed.div_ceil(self.pay)) * self.pay;
        (owed.saturating_sub(paid), debt.at.max(now))
    }

    /// Returns the parts that were owed at `debt.at`, converted to this meter's weight and rounded up.
    fn weighed(&self, debt: &Debt) -> u64 {
        weighed(debt.owed, debt.weight, self.weight, self.most_owed())
    }

    /// Returns the us from `now` until `parts` are paid off, if payment begins at `at`. Returns 0 if `parts` is 0.
    const fn time_to_pay(&self, parts: u64, at: Micros, now: Micros) -> Micros {
        if parts == 0 {
            return 0;
        }
        at - now + parts.div_ceil(self.pay)
    }
}
