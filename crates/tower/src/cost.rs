//! The cost of a request at a limit. The cost is fixed, or a number in a header of a trusted proxy, or a number in the answer's head, or
//! the sum of weighted numbers in the answer's body.

use http::{HeaderMap, HeaderName};
use tidegate_core::MAX_EXACT;
use tidegate_store::Limit;
use tidegate_usage::WeightedPath;

use crate::header_number::largest;
use crate::reserve::sum;
use crate::{Prices, Reserve};

/// The cost of a request, in units of the limit's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The same cost for every request; at least 1.
    Fixed(u64),
    /// The number in a request header if a trusted proxy sent the request, otherwise 1.
    Header {
        /// The header.
        name: HeaderName,
        /// The highest cost of a request, even if the header has a larger number; at least 1.
        max: u64,
    },
    /// The number in a header of the answer. The number may be 0. If the header has no number, the reserved units are charged.
    Answer {
        /// The header.
        name: HeaderName,
        /// The units that the request reserves until the answer with the cost has come.
        reserve: Reserve,
    },
    /// The sum of the numbers in the body of the answer, each times its weight, rounded up. The sum may be 0, and a number that the body
    /// lacks counts as 0. If the body has no number, `missing` determines the charge.
    Body {
        /// The paths to the numbers, with their weights; at least one.
        numbers: Box<[WeightedPath]>,
        /// The units that the request reserves until the answer with the cost has come.
        reserve: Reserve,
        /// The cost of a body without the number.
        missing: Missing,
    },
}

/// The cost of a request if the body of its answer lacks the number for [`Cost::Body`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The reserved units.
    #[default]
    Reserve,
    /// The limit's capacity, if the answer is successful (2xx) and may have a body.
    All,
}

impl Default for Cost {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

impl Cost {
    /// Returns the cost of a request with these headers before its answer; at least 1. `trusted` is true if a trusted proxy sent the
    /// request.
    pub fn of(&self, headers: &HeaderMap, trusted: bool) -> u64 {
        match self {
            Self::Header { name, max } if trusted => {
                largest(headers, name).unwrap_or(1).clamp(1, *max)
            }
            Self::Header { .. } => 1,
            Self::Fixed(cost) => *cost,
            Self::Answer { reserve, .. } | Self::Body { reserve, .. } => reserve.of(headers),
        }
    }

    /// Returns the units to charge before the answer comes, for a request that names no number. `None` if a header of a trusted proxy
    /// determines the units.
    pub fn at_first(&self) -> Option<u64> {
        match self {
            Self::Fixed(cost) => Some(*cost),
            Self::Answer { reserve, .. } | Self::Body { reserve, .. } => Some(reserve.usual()),
            Self::Header { .. } => None,
        }
    }

    /// Returns the units that the request reserves. `None` if the answer does not determine the cost.
    pub const fn reserve(&self) -> Option<&Reserve> {
        match self {
            Self::Answer { reserve, .. } | Self::Body { reserve, .. } => Some(reserve),
            Self::Fixed(_) | Self::Header { .. } => None,
        }
    }

    /// Returns the prices by model. `None` if the cost does not depend on a model.
    pub fn prices(&self) -> Option<&Prices> {
        match self.reserve()? {
            Reserve::Request(reserve) => reserve.prices.as_ref(),
            Reserve::Fixed(_) => None,
        }
    }

    /// Returns the header of a request that the cost or its reserve is read from.
    pub fn request_header(&self) -> Option<&HeaderName> {
        match self {
            Self::Header { name, .. } => Some(name),
            _ => self.reserve()?.header(),
        }
    }

    /// Describes the part of the answer that has the cost. `None` if the cost is not in the answer.
    pub fn told_in(&self) -> Option<String> {
        match self {
            Self::Answer { name, .. } => Some(format!("{name} of the answer")),
            Self::Body { numbers, .. } => {
                let prices = self.prices();
                let prices = prices.map(|it| format!(", times the price by {}", it.path));
                let prices = prices.unwrap_or_default();
                Some(format!("{} in the answer's body{prices}", sum(numbers)))
            }
            Self::Fixed(_) | Self::Header { .. } => None,
        }
    }

    /// Returns the paths to the cost in the answer's body. Empty if the cost is not in the body.
    pub const fn numbers(&self) -> &[WeightedPath] {
        match self {
            Self::Body { numbers, .. } => numbers,
            Self::Fixed(_) | Self::Header { .. } | Self::Answer { .. } => &[],
        }
    }

    /// Returns the cost of a request whose answer is successful but has no cost in its body.
    pub(crate) fn missing(&self, limit: &Limit, reserved: u64) -> u64 {
        match self {
            Self::Body {
                missing: Missing::All,
                ..
            } => limit.quota().capacity().max(reserved),
            _ => reserved,
        }
    }

    /// Returns the cost in the headers of an answer; at most [`MAX_EXACT`], enough to use up any limit.
    pub(crate) fn of_answer(&self, answer: &HeaderMap) -> Option<u64> {
        match self {
            Self::Answer { name, .. } => Some(largest(answer, name)?.min(MAX_EXACT)),
            Self::Fixed(_) | Self::Header { .. } | Self::Body { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("x-cost");

    fn cost(values: &[&str], trusted: bool) -> u64 {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(NAME, value.parse().unwrap());
        }
        Cost::Header {
            name: NAME,
            max: 100,
        }
        .of(&headers, trusted)
    }

    #[test]
    fn a_header_is_believed_from_trusted_proxies_and_up_to_its_bound() {
        for (values, expected) in [
            (&["7"][..], 7),
            (&[" 100 "], 100),
            (&["101"], 100),
            (&["99999999999999999999999"], 100),
            (&["007"], 7),
            (&["0"], 1),
            (&[], 1),
        ] {
            assert_eq!(cost(values, true), expected, "{values:?}");
            assert_eq!(cost(values, false), 1, "{values:?}");
        }
    }

    #[test]
    fn what_is_no_whole_number_says_nothing_and_of_several_the_largest_counts() {
        for broken in ["", "many", "-7", "+7", "7.5", "7e1", "0x7", "7 8", "٧"] {
            let value = http::HeaderValue::from_bytes(broken.as_bytes()).unwrap();
            let headers = HeaderMap::from_iter([(NAME, value)]);
            let max = 100;
            let cost = Cost::Header { name: NAME, max }.of(&headers, true);
            assert_eq!(cost, 1, "{broken}");
        }
        assert_eq!(cost(&["1", "50"], true), 50);
        assert_eq!(cost(&["50", "1"], true), 50);
        assert_eq!(cost(&["1, 50,"], true), 50);
        assert_eq!(cost(&["50", "many"], true), 50);
    }

    #[test]
    fn an_answer_says_what_its_request_has_cost() {
        let cost = Cost::Answer {
            name: NAME,
            reserve: Reserve::Fixed(10),
        };
        for (text, expected) in [
            (Some("0"), Some(0)),
            (Some("7, 3"), Some(7)),
            (Some("99999999999999999999999"), Some(MAX_EXACT)),
            (Some("-1"), None),
            (None, None),
        ] {
            let header = text.map(|text| (NAME, text.parse().unwrap()));
            let headers = HeaderMap::from_iter(header);
            assert_eq!(cost.of_answer(&headers), expected, "{headers:?}");
            assert_eq!(
                cost.of(&headers, true),
                10,
                "until then it is what was reserved"
            );
        }
    }

    #[test]
    fn what_is_fixed_is_the_same_for_all() {
        let headers = HeaderMap::from_iter([(NAME, "7".parse().unwrap())]);
        assert_eq!(Cost::Fixed(5).of(&headers, true), 5);
        assert_eq!(Cost::Fixed(5).of(&headers, false), 5);
        assert_eq!(Cost::default().of(&headers, true), 1);
    }
}
