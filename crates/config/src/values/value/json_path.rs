//! Paths to values in JSON, the weights of numbers, and patterns of names.

use serde_json::{Map, json};
use tidegate_tower::{JsonPath, NamePattern, NamePatternError, PathError, Weight, WeightError};

use crate::values::value::number::object;
use crate::values::value::{Fault, Value};

impl Value for JsonPath {
    const NAME: &'static str = "JsonPath";
    const WHAT: &'static str = "a path to a value in JSON";
    const ALLOWED: &'static str = "names of keys, joined by dots, such as usage.total_tokens";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse()
            .map_err(|PathError(reason)| Fault::Because(reason))
    }
}

impl Value for NamePattern {
    const NAME: &'static str = "NamePattern";
    const WHAT: &'static str = "a name";
    const ALLOWED: &'static str =
        "a name of 1 to 128 bytes; `*` at its end stands for any rest, such as large-*";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|NamePatternError| Fault::Form)
    }
}

impl Value for Weight {
    const NAME: &'static str = "Weight";
    const WHAT: &'static str = "a weight";
    const ALLOWED: &'static str =
        "a number from 0.001 to 1000000, with three decimals at most, such as 4 or 0.1";

    fn read(text: &str) -> Result<Self, Fault> {
        text.parse().map_err(|WeightError| Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        object(json!({ "type": "number", "minimum": 0.001, "maximum": 1_000_000 }))
    }
}
