//! The parts of a unit of cost, so that rates are exact in integers, and the conversion of debts to other parts.

use super::Meter;
use crate::numbers::{MAX_EXACT, MAX_SPAN, MAX_WINDOW, Rate, gcd};

/// The debts that weights leave room for, in capacities, if such weights are exact to one part in a million.
const HEADROOM: u64 = 1_000;

/// Converts a debt from `from` parts per unit to `to` parts per unit: rounded up, and `most` at most.
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

/// Returns `weight` and `pay` with `weight / pay >= P / n`: equal if that fits, else closer than one part in a million. None for a
/// capacity that does not fit, or that is not paid off within [`MAX_SPAN`]. They leave room for debts of up to [`HEADROOM`]
/// capacities, or fewer if these do not fit.
pub(super) fn weigh(capacity: u64, rate: Rate) -> Option<(u64, u64)> {
    let span = u128::from(capacity) * u128::from(rate.per);
    if capacity > MAX_SPAN || span > u128::from(MAX_SPAN) * u128::from(rate.count) {
        return None;
    }
    [HEADROOM, 100, 10, 1]
        .into_iter()
        .find_map(|times| weigh_up_to(capacity.checked_mul(times)?, rate))
}

/// Returns the numbers of [`weigh`] for exact debts of up to `units`.
fn weigh_up_to(units: u64, rate: Rate) -> Option<(u64, u64)> {
    // Its result fits: it is no larger than either number.
    let common = gcd(rate.count.into(), rate.per.into()) as u64;
    let (weight, pay) = (rate.per / common, rate.count / common);
    let fits = |weight: u64, pay: u64| {
        let owed = u128::from(units) * u128::from(weight);
        owed + u128::from(pay) <= u128::from(MAX_EXACT)
    };
    if fits(weight, pay) {
        return Some((weight, pay));
    }
    // The greatest payment whose weight still fits. The weight rounds up, by less than one part in itself.
    let room = MAX_EXACT.checked_sub(pay)? / units;
    let pay = u128::from(room) * u128::from(rate.count) / u128::from(rate.per);
    let weight = (pay * u128::from(rate.per)).div_ceil(u128::from(rate.count));
    let (weight, pay) = (u64::try_from(weight).ok()?, u64::try_from(pay).ok()?);
    (pay > 0 && weight > 1_000_000 && fits(weight, pay)).then_some((weight, pay))
}

impl Meter {
    /// Returns a share, as [`crate::Algorithm::divided`]: less capacity, paid off more slowly.
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
        // A smaller capacity always fits. If it did not, the whole would be too strict rather than too loose.
        Self::new("capacity", capacity, rate).unwrap_or(Self {
            capacity,
            full: (capacity * self.weight).div_ceil(self.pay),
            ..*self
        })
    }

    /// Whether at least the same units are paid off in any time, as [`crate::Algorithm::is_as_fast`].
    pub(crate) fn is_as_fast(&self, other: &Self) -> bool {
        let product = |pay: u64, weight: u64| u128::from(pay) * u128::from(weight);
        product(self.pay, other.weight) >= product(other.pay, self.weight)
    }
}
