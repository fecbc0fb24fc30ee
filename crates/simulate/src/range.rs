//! A number that is exact, or has two bounds.

use serde::Serialize;

/// An exact number, or two bounds. The bounds are the results of two runs: one run spreads requests evenly over each second, the other
/// places all requests of a second at the start of that second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Range {
    /// The lower bound.
    pub(crate) low: u64,
    /// The upper bound, which equals the lower bound if the times are exact.
    pub(crate) high: u64,
}

impl From<u64> for Range {
    fn from(number: u64) -> Self {
        Self {
            low: number,
            high: number,
        }
    }
}

impl Range {
    /// Returns the range from the smallest to the largest of these numbers.
    pub(crate) fn of(numbers: impl Iterator<Item = u64> + Clone) -> Self {
        Self {
            low: numbers.clone().min().unwrap_or(0),
            high: numbers.max().unwrap_or(0),
        }
    }
}
