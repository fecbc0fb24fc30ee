//! Chooses the number of parts of a unit of cost, so that rates are exact in integers. Converts debts to another number of parts.

use super::Meter;
use crate::numbers::{MAX_EXACT, MAX_SPAN, MAX_WINDOW, Rate, gcd};

/// The largest debt that is counted exactly, in multiples of the capacity. The largest debt is smaller if the rate would otherwise err by
/// more than one part in a million.
const HEADROOM: u64 = 1_000;

/// Converts a debt from `from` parts per unit to `to` parts per unit. The result is rounded up, and is at most `most`.
pub(super) fn weighed(owed: u64, from: u64, to: u64, most: u64) -> u64 {
    if owed == 0 || from == to {
        return owed.min(most);
    }
    let (units, rest) = (owed / from, owed % from);
    if units >= most / to {
        return most;
    }
    let part = if rest <= MAX_EXACT / to {
        (rest * to).div_ceil(from)
    } else {
        to
    };
    units * to + part
}

/// Returns the greatest capacity that fits this rate; 0 if none does. Every smaller capacity fits, too.
pub(super) fn largest_capacity(rate: Rate) -> u64 {
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

/// Returns `weight` and `pay` for a rate of n units per P microseconds, with `weight / pay >= P / n`. If exact numbers are too large, the
/// two quotients differ by less than one part in a million. Otherwise the quotients are equal. The numbers leave room for a debt of
/// [`HEADROOM`] times the capacity, or for a smaller debt if so large a debt does not fit. `None` if a full debt does not fit, or is not
/// paid off within [`MAX_SPAN`].
pub(super) fn weigh(capacity: u64, rate: Rate) -> Option<(u64, u64)> {
    let span = u128::from(capacity) * u128::from(rate.per);
    if capacity > MAX_SPAN || span > u128::from(MAX_SPAN) * u128::from(rate.count) {
        return None;
    }
    [HEADROOM, 100, 10, 1]
        .into_iter()
        .find_map(|times| weigh_up_to(capacity.checked_mul(times)?, rate))
}

/// Returns the result of [`weigh`] that keeps debts of up to `units` exact, if there is one.
fn weigh_up_to(units: u64, rate: Rate) -> Option<(u64, u64)> {
    // The divisor fits in a `u64`, because it is no larger than either number.
    let common = gcd(rate.count.into(), rate.per.into()) as u64;
    let (weight, pay) = (rate.per / common, rate.count / common);
    let fits = |weight: u64, pay: u64| {
        let owed = u128::from(units) * u128::from(weight);
        owed + u128::from(pay) <= u128::from(MAX_EXACT)
    };
    if fits(weight, pay) {
        return Some((weight, pay));
    }
    // The greatest payment whose weight still fits. The weight is rounded up by less than 1, which is less than one part in a million.
    let room = MAX_EXACT.checked_sub(pay)? / units;
    let pay = u128::from(room) * u128::from(rate.count) / u128::from(rate.per);
    let weight = (pay * u128::from(rate.per)).div_ceil(u128::from(rate.count));
    let (weight, pay) = (u64::try_from(weight).ok()?, u64::try_from(pay).ok()?);
    (pay > 0 && weight > 1_000_000 && fits(weight, pay)).then_some((weight, pay))
}

impl Meter {
    /// Returns a share of this meter ([`crate::Algorithm::divided`]): a smaller capacity with a slower rate.
    pub(crate) fn divided(&self, parts: u64) -> Self {
        let parts = parts.max(1);
        let capacity = (self.capacity / parts).max(1);
        // This meter's rate is `pay` per `weight` us. A span that is too long for a rate is cut, and the count is cut in proportion.
        let span = u128::from(self.weight) * u128::from(parts);
        let per = span.min(u128::from(MAX_WINDOW));
        let count = (u128::from(self.pay) * per / span).max(1);
        let number = |number: u128| u64::try_from(number).unwrap_or(MAX_WINDOW);
        let rate = Rate {
            count: number(count),
            per: number(per),
        };
        // `Meter::new` accepts a smaller capacity. If it fails because of a rounded rate, the share gets this meter's undivided rate.
        Self::new("capacity", capacity, rate).unwrap_or(Self {
            capacity,
            full: (capacity * self.weight).div_ceil(self.pay),
            ..*self
        })
    }

    /// Whether this meter pays off no fewer units than `other` in any time ([`crate::Algorithm::is_as_fast`]).
    pub(crate) fn is_as_fast(&self, other: &Self) -> bool {
        let product = |pay: u64, weight: u64| u128::from(pay) * u128::from(weight);
        product(self.pay, other.weight) >= product(other.pay, self.weight)
    }
}
