//! Paths to numbers in JSON, and the weights of these numbers.

use serde_json::{Map, json};
use tidegate_tower::{JsonPath, PathError, Weight, WeightError};

use crate::values::value::number::object;
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
