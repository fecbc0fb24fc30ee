//! Values that are sizes: `none`, or a number of bytes with or without a unit.

use serde_json::{Map, json};

use crate::values::value::Fault;
use crate::values::value::number::{digits, object};

/// Reads a size in bytes. `None` if the text is `none`.
///
/// # Errors
///
/// The text is not a size, or the size is too large.
pub(crate) fn size(text: &str) -> Result<Option<u64>, Fault> {
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

/// Returns the JSON Schema of a size.
pub(crate) fn size_schema() -> Map<String, serde_json::Value> {
    object(json!({
        "type": ["string", "integer"],
        "minimum": 0,
        "pattern": "^(none|[0-9]+(KB|MB|GB)?)$",
    }))
}
