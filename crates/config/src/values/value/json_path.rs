//! Paths to numbers in JSON.

use tidegate_tower::{JsonPath, PathError};

use crate::values::value::{Fault, Value};

impl Value for JsonPath {
    const NAME: &'static str = "JsonPath";
    const WHAT: &'static str = "a path to a number in JSON";
    const ALLOWED: &'static str = "names of keys, joined by dots, such as usage.total_tokens";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse()
            .map_err(|PathError(reason)| Fault::Because(reason))
    }
}
