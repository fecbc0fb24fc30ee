//! What a request costs at a limit: the same for all, what a trusted proxy says of each, or what its answer says, in a header or in
//! its body.

use http::{HeaderMap, HeaderName};
use tidegate_core::MAX_EXACT;
use tidegate_store::Limit;
use tidegate_usage::JsonPath;

/// What a request costs, in units of the limit's quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The same for every request; at least 1.
    Fixed(u64),
    /// What a header says, if a trusted proxy sent the request; else 1.
    Header {
        /// The header.
        name: HeaderName,
        /// What a request costs that is said to cost more; at least 1.
        max: u64,
    },
    /// What a header of the answer says, from 0 up; without one what was reserved.
    Answer {
        /// The header.
        name: HeaderName,
        /// What is charged until then; at least 1.
        reserve: u64,
    },
    /// What a number in the body of the answer says, from 0 up; without one what was reserved.
    Body {
        /// Leads to the number.
        path: JsonPath,
        /// What is charged until then; at least 1.
        reserve: u64,
        /// The charge for a body without the number.
        missing: Missing,
    },
}

/// The cost of an answer whose body lacks the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// What was reserved.
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
    /// What a request with these headers is charged as; at least 1. `trusted` says whether a trusted proxy sent it.
    pub fn of(&self, headers: &HeaderMap, trusted: bool) -> u64 {
        match self {
            Self::Header { name, max } if trusted => {
                told(headers, name).unwrap_or(1).clamp(1, *max)
            }
            _ => self.at_first().unwrap_or(1),
        }
    }

    /// What every request is charged as at first; none if requests differ.
    pub const fn at_first(&self) -> Option<u64> {
        match self {
            Self::Fixed(cost)
            | Self::Answer { reserve: cost, .. }
            | Self::Body { reserve: cost, .. } => Some(*cost),
            Self::Header { .. } => None,
        }
    }

    /// Which part of the answer says the cost, in words; none if no part does.
    pub fn told_in(&self) -> Option<String> {
        match self {
            Self::Answer { name, .. } => Some(format!("{name} of the answer")),
            Self::Body { path, .. } => Some(format!("{path} in the answer's body")),
            Self::Fixed(_) | Self::Header { .. } => None,
        }
    }

    /// Leads to what the body of the answer says, if that is asked.
    pub const fn path(&self) -> Option<&JsonPath> {
        match self {
            Self::Body { path, .. } => Some(path),
            Self::Fixed(_) | Self::Header { .. } | Self::Answer { .. } => None,
        }
    }

    /// Returns the cost of a successful answer whose body lacks the number.
    pub(crate) fn missing(&self, limit: &Limit, reserved: u64) -> u64 {
        match self {
            Self::Body {
                missing: Missing::All,
                ..
            } => limit.quota().capacity().max(reserved),
            _ => reserved,
        }
    }

    /// What an answer with these headers says that its request has cost; at most [`MAX_EXACT`], which is all of any limit.
    pub(crate) fn told_by(&self, answer: &HeaderMap) -> Option<u64> {
        match self {
            Self::Answer { name, .. } => Some(told(answer, name)?.min(MAX_EXACT)),
            Self::Fixed(_) | Self::Header { .. } | Self::Body { .. } => None,
        }
    }
}

/// The largest number that a header says: a proxy that adds its own behind a client's is not talked down. What is no
/// whole number says nothing.
fn told(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let values = headers.get_all(name).iter();
    let values = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    values.filter_map(number).max()
}

/// A number in digits; one that is too large for any use is the largest there is.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    Some(digits.parse().unwrap_or(u64::MAX))
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
            reserve: 10,
        };
        for (told, expected) in [
            (Some("0"), Some(0)),
            (Some("7, 3"), Some(7)),
            (Some("99999999999999999999999"), Some(MAX_EXACT)),
            (Some("-1"), None),
            (None, None),
        ] {
            let told = told.map(|told| (NAME, told.parse().unwrap()));
            let headers = HeaderMap::from_iter(told);
            assert_eq!(cost.told_by(&headers), expected, "{headers:?}");
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
