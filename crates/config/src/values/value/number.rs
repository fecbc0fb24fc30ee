//! Values that are numbers (counts, durations, rates, shares), and booleans.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, json};
use tidegate_core::{HIGHEST_RATE, MAX_WINDOW, Rate};

use crate::values::value::{Fault, Value};

/// A count. The code that uses the count refuses zero and numbers above its own bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u64);

impl Value for Count {
    const NAME: &'static str = "Count";
    const WHAT: &'static str = "a whole number";
    const ALLOWED: &'static str = "a whole number of at least 1, such as 100";

    fn read(text: &str) -> Result<Self, Fault> {
        digits(text).map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        whole(1, None)
    }
}

/// Declares a type for whole numbers within bounds.
macro_rules! bounded {
    ($(#[$doc:meta])* $type:ident($number:ty), $least:literal..=$most:literal, $what:literal, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $type(pub(crate) $number);

        impl $crate::values::value::Value for $type {
            const NAME: &'static str = stringify!($type);
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = $allowed;

            fn read(text: &str) -> Result<Self, $crate::values::value::Fault> {
                $crate::values::value::number::within(text, $least..=$most).map(Self)
            }

            fn schema() -> serde_json::Map<String, serde_json::Value> {
                $crate::values::value::number::whole($least, Some($most))
            }
        }
    };
}

bounded!(
    /// A number of connections that may be open at once.
    Connections(usize),
    1..=1_000_000,
    "a number of connections",
    "a whole number from 1 to 1000000"
);

impl Value for bool {
    const NAME: &'static str = "Boolean";
    const WHAT: &'static str = "`true` or `false`";
    const ALLOWED: &'static str = "true or false";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|_| Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        object(json!({ "type": "boolean" }))
    }
}

/// A duration, such as a window or a timeout. 0 and more than 31 days are refused, because they are probably mistakes.
impl Value for Duration {
    const NAME: &'static str = "Duration";
    const WHAT: &'static str = "a duration";
    const ALLOWED: &'static str = "a whole number and a unit (ms, s, m, h, d), from 1ms to 31d, such as 25ms, 60s, 15m, 1h or 1d";

    fn read(text: &str) -> Result<Self, Fault> {
        let millis = match text {
            "0" => 0,
            text => millis(text).ok_or(Fault::Form)?,
        };
        if millis == 0 {
            return Err(Fault::Because(
                "a duration is from 1ms to 31d, and 0 does not turn it off",
            ));
        }
        if millis > MAX_WINDOW / 1_000 {
            return Err(Fault::Because("the longest duration is 31d"));
        }
        Ok(Self::from_millis(millis))
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^(0|[1-9][0-9]*)(ms|s|m|h|d)$")
    }
}

impl Value for Rate {
    const NAME: &'static str = "Rate";
    const WHAT: &'static str = "a rate";
    const ALLOWED: &'static str =
        "how many per how long (ms, s, m, h, d), such as 10/s, 600/m, 1000/h, 5000/d or 100/15m";

    fn read(text: &str) -> Result<Self, Fault> {
        let (count, per) = text.split_once('/').ok_or(Fault::Form)?;
        let count = digits(count).ok_or(Fault::Form)?;
        let millis = unit(per).or_else(|| millis(per)).ok_or(Fault::Form)?;
        if count == 0 || millis == 0 {
            return Err(Fault::Because(
                "a rate must be at least 1, per 1ms or longer",
            ));
        }
        if count > HIGHEST_RATE {
            return Err(Fault::Because("the highest rate is 1000000000 per period"));
        }
        let per = millis.saturating_mul(1_000);
        if per > MAX_WINDOW {
            return Err(Fault::Because("a rate is per 31d at most"));
        }
        Ok(Self { count, per })
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^(0|[1-9][0-9]*)/(0|[1-9][0-9]*)?(ms|s|m|h|d)$")
    }
}

/// Parses decimal digits. A number above `u64::MAX` becomes `u64::MAX`, which the caller's bound refuses. A number with a leading zero is
/// refused, because `010` is 8 in YAML 1.1 and 10 in YAML 1.2.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let has_leading_zero = text.len() > 1 && text.starts_with('0');
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !has_leading_zero).then(|| text.parse().unwrap_or(u64::MAX))
}

/// Reads a whole number within a range.
///
/// # Errors
///
/// The text is no whole number, or the number is outside `range`.
pub(crate) fn within<N: TryFrom<u64>>(text: &str, range: RangeInclusive<u64>) -> Result<N, Fault> {
    let number = digits(text).filter(|number| range.contains(number));
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or(Fault::Form)
}

fn millis(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, name) = text.split_at(split);
    Some(digits(number)?.saturating_mul(unit(name)?))
}

/// Returns the length of a unit of time, in milliseconds.
fn unit(name: &str) -> Option<u64> {
    match name {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    }
}

/// Returns the schema of a whole number within these bounds.
pub(crate) fn whole(least: u64, most: Option<u64>) -> Map<String, serde_json::Value> {
    let mut schema = object(json!({ "type": "integer", "minimum": least }));
    schema.extend(most.map(|most| ("maximum".to_owned(), most.into())));
    schema
}

/// Returns the schema of a text that a regular expression matches.
pub(crate) fn pattern(pattern: &str) -> Map<String, serde_json::Value> {
    object(json!({ "type": "string", "pattern": pattern }))
}

/// Converts a schema from a JSON object to a map.
pub(crate) fn object(schema: serde_json::Value) -> Map<String, serde_json::Value> {
    match schema {
        serde_json::Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A share, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u32);

impl Value for Percent {
    const NAME: &'static str = "Percent";
    const WHAT: &'static str = "a share";
    const ALLOWED: &'static str = "a whole number of percent from 1% to 100%";

    fn read(text: &str) -> Result<Self, Fault> {
        let number = text.strip_suffix('%').ok_or(Fault::Form)?;
        within(number, 1..=100).map(Self)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern("^[0-9]{1,3}%$")
    }
}

pub(crate) use bounded;
