//! Values that are sizes: `none`, or bytes, written with or without a unit.

use serde_json::{Map, json};

use super::number::{digits, object};
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
