//! The weight of a number in a body: units per 1.

use std::fmt;
use std::str::FromStr;

use crate::path::JsonPath;

/// The weight of a number, in thousandths of a unit.
///
/// ```
/// use tidegate_usage::Weight;
///
/// let weight: Weight = "0.1".parse()?;
/// assert_eq!(weight.thousandths(), 100);
/// assert_eq!(weight.to_string(), "0.1");
/// assert!("0.0001".parse::<Weight>().is_err());
/// # Ok::<(), tidegate_usage::WeightError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u64);

/// The error for a text that is not a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a weight is a number from 0.001 to 1000000, with three decimals at most")]
pub struct WeightError;

impl Weight {
    /// The weight 1.
    pub const ONE: Self = Self(1_000);
    /// The largest weight.
    const MAX: Self = Self(1_000_000_000);

    /// Returns the weight in thousandths.
    pub const fn thousandths(self) -> u64 {
        self.0
    }
}

impl FromStr for Weight {
    type Err = WeightError;

    fn from_str(text: &str) -> Result<Self, WeightError> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
            return Err(WeightError);
        }
        let thousandths = format!("{whole}{decimals:0<3}").parse().map(Self);
        thousandths
            .ok()
            .filter(|weight| (Self(1)..=Self::MAX).contains(weight))
            .ok_or(WeightError)
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.0 / 1_000, self.0 % 1_000);
        match decimals {
            0 => write!(f, "{whole}"),
            _ => {
                let decimals = format!("{decimals:03}");
                write!(f, "{whole}.{}", decimals.trim_end_matches('0'))
            }
        }
    }
}

/// A path to a number, and the number's weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedPath {
    /// The path.
    pub path: JsonPath,
    /// The weight.
    pub weight: Weight,
}

impl From<JsonPath> for WeightedPath {
    fn from(path: JsonPath) -> Self {
        let weight = Weight::ONE;
        Self { path, weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_a_decimal_number_of_thousandths() {
        for (text, thousandths, written) in [
            ("1", 1_000, "1"),
            ("4", 4_000, "4"),
            ("0.1", 100, "0.1"),
            ("0.001", 1, "0.001"),
            ("2.50", 2_500, "2.5"),
            ("01.0", 1_000, "1"),
            ("1000000", 1_000_000_000, "1000000"),
        ] {
            let weight: Weight = text.parse().unwrap();
            assert_eq!(weight.thousandths(), thousandths, "{text}");
            assert_eq!(weight.to_string(), written);
        }
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "0",
            "0.000",
            "-1",
            "+1",
            "1e3",
            "0.0001",
            "1000000.001",
            "99999999999999999999999",
            "1,5",
            "٧",
            "nan",
        ] {
            assert_eq!(text.parse::<Weight>(), Err(WeightError), "{text}");
        }
    }
}
