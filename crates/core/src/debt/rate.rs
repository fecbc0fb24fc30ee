//! Formats the rate of a meter as users write it, and makes meters with another capacity.

use super::Meter;
use crate::numbers::{
    HIGHEST_RATE, MAX_WINDOW, Micros, QuotaError, Rate, gcd, in_millis, written_rate,
};

const MILLI: Micros = 1_000;
const SECOND: Micros = 1_000 * MILLI;

/// The spans that are tried for a rate, from the most readable to the least.
const SPANS: [Micros; 6] = [
    SECOND,
    60 * SECOND,
    3_600 * SECOND,
    86_400 * SECOND,
    MAX_WINDOW,
    MILLI,
];

impl Meter {
    /// Returns the rate as users write it.
    pub(crate) fn written(&self) -> String {
        written_rate(self.rate().unwrap_or_else(|close| close))
    }

    /// Returns a rate that users can write and that makes exactly this meter. If there is none, the error is a rate that differs by less
    /// than one part in a million.
    fn rate(&self) -> Result<Rate, Rate> {
        let (pay, weight) = (u128::from(self.pay), u128::from(self.weight));
        let common = gcd(pay, weight);
        let exact = in_millis(pay / common, weight / common);
        // The weight may have been rounded up by less than 1, so rates that are slightly higher make the same meter.
        let whole = SPANS.iter().filter_map(|per| {
            let count = (pay * u128::from(*per)).div_ceil(weight);
            rate(count, *per)
        });
        let milli = u128::from(MILLI);
        let [count, millis] = simplest([pay * milli, weight], [pay * milli, (weight - 1).max(1)]);
        let close = in_millis(count, millis * milli);
        let mut all = exact.into_iter().chain(whole).chain(close);
        let same = all.find(|rate| Self::new("capacity", self.capacity, *rate) == Ok(*self));
        let own = Rate {
            count: self.pay,
            per: self.weight,
        };
        same.ok_or_else(|| close.or(exact).unwrap_or(own))
    }

    /// Returns a meter with another capacity. A full debt is paid off in the same time as before. If users cannot write the new rate, it is
    /// slower by less than one part in a thousand. `what` is the capacity's name in YAML.
    pub(crate) fn with_capacity(
        &self,
        what: &'static str,
        capacity: u64,
    ) -> Result<Self, QuotaError> {
        if capacity == self.capacity {
            return Ok(*self);
        }
        let own = self.rate().unwrap_or_else(|close| close);
        let units = u128::from(own.count) * u128::from(capacity);
        let span = u128::from(own.per) * u128::from(self.capacity);
        let common = gcd(units, span).max(1);
        let (units, span) = (units / common, span / common);
        let whole = SPANS.iter().filter_map(|per| {
            let count = units.checked_mul(u128::from(*per))? / span;
            rate(count, *per).filter(|rate| rate.count >= 1_000)
        });
        let mut failed = QuotaError::LongWindow;
        for rate in in_millis(units, span).into_iter().chain(whole) {
            match Self::new(what, capacity, rate) {
                Ok(meter) if meter.rate().is_ok() => return Ok(meter),
                Ok(_) => {}
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

/// Returns `count` per `per` us, if users can write this rate.
fn rate(count: u128, per: Micros) -> Option<Rate> {
    let count = u64::try_from(count).ok()?;
    let is_rate = (1..=HIGHEST_RATE).contains(&count);
    is_rate.then_some(Rate { count, per })
}

/// Returns the fraction between `low` and `high`, both included, that has the smallest numbers. Each fraction is a numerator and a
/// denominator.
fn simplest([low, low_of]: [u128; 2], [high, high_of]: [u128; 2]) -> [u128; 2] {
    let whole = low / low_of;
    if low == whole * low_of {
        return [whole, 1];
    }
    if (whole + 1) * high_of <= high {
        return [whole + 1, 1];
    }
    let [below, above] = [
        [low_of, low - whole * low_of],
        [high_of, high - whole * high_of],
    ];
    let [count, of] = simplest(above, below);
    [whole * count + of, count]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simplest_fraction_lies_between() {
        assert_eq!(simplest([1, 3], [1, 2]), [1, 2]);
        assert_eq!(simplest([314, 100], [315, 100]), [22, 7]);
        assert_eq!(
            simplest([3_141_592, 1_000_000], [3_141_593, 1_000_000]),
            [355, 113]
        );
        assert_eq!(simplest([7, 10], [31, 10]), [1, 1]);
        assert_eq!(simplest([999, 1_000_000], [1_001, 1_000_000]), [1, 1_000]);
    }
}
