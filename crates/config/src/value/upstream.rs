//! Values that say how upstreams are used.

use http::uri::PathAndQuery;
use serde_json::Map;

use super::number::{digits, pattern, whole};
use super::{Fault, Value};

/// A whole number within bounds.
macro_rules! bounded {
    ($(#[$doc:meta])* $type:ident($number:ty), $range:expr, $what:literal, $allowed:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) struct $type(pub(crate) $number);

        impl Value for $type {
            const NAME: &'static str = stringify!($type);
            const WHAT: &'static str = $what;
            const ALLOWED: &'static str = $allowed;

            fn read(text: &str) -> Result<Self, Fault> {
                let number = digits(text).filter(|number| $range.contains(number));
                let number = number.and_then(|number| number.try_into().ok());
                number.map(Self).ok_or(Fault::Form)
            }

            fn schema() -> Map<String, serde_json::Value> {
                whole(*$range.start(), Some(*$range.end()))
            }
        }
    };
}

bounded!(
    /// A server's share beside that of others.
    Weight(u32),
    (1..=1_000),
    "a weight",
    "a whole number from 1 to 1000"
);
bounded!(
    /// So many in a row.
    Times(u32),
    (1..=1_000),
    "a number of times",
    "a whole number from 1 to 1000"
);
bounded!(
    /// How often a request is sent once more.
    Attempts(u32),
    (1..=5),
    "a number of retries",
    "a whole number from 1 to 5"
);
bounded!(
    /// How many requests may wait.
    Waiting(usize),
    (0..=1_000_000),
    "a number of requests",
    "a whole number from 0 to 1000000"
);

/// A share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Percent(pub(crate) u32);

impl Value for Percent {
    const NAME: &'static str = "Percent";
    const WHAT: &'static str = "a share";
    const ALLOWED: &'static str = "a whole number of percent from 1% to 100%";

    fn read(text: &str) -> Result<Self, Fault> {
        let number = text.strip_suffix('%').and_then(digits);
        let number = number.filter(|number| (1..=100).contains(number));
        let number = number.and_then(|number| number.try_into().ok());
        number.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern("^[0-9]{1,3}%$")
    }
}

/// That no server is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoEjection;

impl Value for NoEjection {
    const NAME: &'static str = "NoEjection";
    const WHAT: &'static str = "an ejection setting";
    const ALLOWED: &'static str = "none, or `{ after: …, for: …, at_most: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "none").then_some(Self).ok_or(Fault::Form)
    }
}

/// What a health check asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckPath(pub(crate) PathAndQuery);

impl Value for CheckPath {
    const NAME: &'static str = "CheckPath";
    const WHAT: &'static str = "a path to ask for";
    const ALLOWED: &'static str = "a path such as /healthz, with a query if need be";

    fn read(text: &str) -> Result<Self, Fault> {
        let path = text.parse().ok().filter(|_| text.starts_with('/'));
        path.map(Self).ok_or(Fault::Form)
    }
}
