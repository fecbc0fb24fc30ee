//! Values that say how requests are traced.

use http::Uri;
use serde_json::Map;

use super::net::http_url;
use super::number::{digits, whole};
use super::{Fault, Value};

/// Where a collector takes spans by OTLP over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtlpUrl(pub(crate) Uri);

impl OtlpUrl {
    /// Where the standard has collectors take spans below their own URL.
    const PATH: &str = "/v1/traces";

    /// The URL of a collector, to which the path is added.
    pub(crate) fn of_collector(text: &str) -> Result<Self, Fault> {
        Self::exact(&format!("{}{}", text.trim_end_matches('/'), Self::PATH))
    }

    /// The whole URL.
    pub(crate) fn exact(text: &str) -> Result<Self, Fault> {
        http_url(text, "the URL of a collector holds no user and password").map(Self)
    }
}

impl Value for OtlpUrl {
    const NAME: &'static str = "OtlpUrl";
    const WHAT: &'static str = "the URL of a collector";
    const ALLOWED: &'static str = "http://host:port or https://host:port, to which /v1/traces is added, or the same with a path of its own";
    const SHOWN: bool = false;

    fn read(text: &str) -> Result<Self, Fault> {
        let Self(uri) = Self::exact(text)?;
        match (uri.path(), uri.query()) {
            ("/" | "", None) => Self::of_collector(text),
            _ => Ok(Self(uri)),
        }
    }
}

/// How many requests are traced per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TracesPerSecond(pub(crate) u32);

impl TracesPerSecond {
    const MOST: u64 = 100_000;
}

impl Value for TracesPerSecond {
    const NAME: &'static str = "TracesPerSecond";
    const WHAT: &'static str = "a number of traces per second";
    const ALLOWED: &'static str = "a whole number from 1 to 100000";

    fn read(text: &str) -> Result<Self, Fault> {
        let number = digits(text).filter(|number| (1..=Self::MOST).contains(number));
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        whole(1, Some(Self::MOST))
    }
}

#[cfg(test)]
mod tests;
