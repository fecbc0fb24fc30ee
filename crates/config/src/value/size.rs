//! Values that are sizes: `none`, or bytes, written with or without a unit.

use std::num::NonZeroU64;

use serde_json::{Map, json};

use super::number::{digits, object, pattern};
use super::{Fault, Value};

/// The most bytes of a body; none: as many as come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BodyLimit(pub(crate) Option<u64>);

impl Value for BodyLimit {
    const NAME: &'static str = "BodyLimit";
    const WHAT: &'static str = "a size";
    const ALLOWED: &'static str =
        "`none`, or bytes, or a whole number and a unit (KB, MB, GB), such as 512KB or 10MB";

    fn read(text: &str) -> Result<Self, Fault> {
        size(text).map(Self)
    }

    fn schema() -> Map<String, serde_json::Value> {
        size_schema()
    }
}

/// The most bytes of memory; none: as many as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryLimit(pub(crate) Option<u64>);

impl MemoryLimit {
    /// With less a gateway could hardly begin.
    const LEAST: u64 = 64 << 20;
}

impl Value for MemoryLimit {
    const NAME: &'static str = "MemoryLimit";
    const WHAT: &'static str = "a size of memory";
    const ALLOWED: &'static str = "`none`, or 64MB or more, as bytes or a whole number and a unit (KB, MB, GB), such as 512MB";

    fn read(text: &str) -> Result<Self, Fault> {
        match size(text)? {
            Some(bytes) if bytes < Self::LEAST => Err(Fault::Form),
            size => Ok(Self(size)),
        }
    }

    fn schema() -> Map<String, serde_json::Value> {
        size_schema()
    }
}

/// Bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRate(pub(crate) NonZeroU64);

impl ByteRate {
    /// The highest rate. No client of today's networks could keep to more.
    const MOST: u64 = 1 << 30;
}

impl Value for ByteRate {
    const NAME: &'static str = "ByteRate";
    const WHAT: &'static str = "a rate of bytes";
    const ALLOWED: &'static str = "a whole number, a unit (B, KB, MB, GB) and `/s`, from 1B/s to 1GB/s, such as 240B/s or 1KB/s";

    fn read(text: &str) -> Result<Self, Fault> {
        let bytes = text.strip_suffix("/s").ok_or(Fault::Form)?;
        // A bare number could be meant as requests per second.
        let bytes = match bytes.strip_suffix('B') {
            Some(number) if !number.is_empty() && digits(number).is_some() => number,
            Some(_) => bytes,
            None => return Err(Fault::Form),
        };
        let bytes = size(bytes)?.and_then(NonZeroU64::new);
        let bytes = bytes.filter(|bytes| bytes.get() <= Self::MOST);
        bytes.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^[0-9]+(B|KB|MB|GB)/s$")
    }
}

/// The value of `slow` that cuts nobody off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoLeastRate;

impl Value for NoLeastRate {
    const NAME: &'static str = "NoLeastRate";
    const WHAT: &'static str = "a least rate";
    const ALLOWED: &'static str = "none, or `{ rate: …, after: … }`";

    fn read(text: &str) -> Result<Self, Fault> {
        (text == "none").then_some(Self).ok_or(Fault::Form)
    }
}

fn size(text: &str) -> Result<Option<u64>, Fault> {
    if text == "none" {
        return Ok(None);
    }
    let split = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(split.unwrap_or(text.len()));
    let bytes = match unit {
        "" => 1,
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return Err(Fault::Form),
    };
    let number = digits(number).ok_or(Fault::Form)?;
    let size = number.checked_mul(bytes).filter(|_| number < u64::MAX);
    let too_large = Fault::Because("this size is too large; `none` is no limit");
    size.map(Some).ok_or(too_large)
}

fn size_schema() -> Map<String, serde_json::Value> {
    object(json!({
        "type": ["string", "integer"],
        "minimum": 0,
        "pattern": "^(none|[0-9]+(KB|MB|GB)?)$",
    }))
}
