//! Types for parts of the configuration: maps in the order of the file, and values that may be written in two ways.

use std::borrow::Cow;

use crate::yaml::{Place, ScalarOr, Spanned, entries};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer};
use serde_json::json;

use crate::values::value::word::LimitName;
use crate::values::value::{Scalar, Value};

/// A map from names to values, in the order of the file.
#[derive(Debug)]
pub(crate) struct Named<T, K = LimitName>(pub(crate) Vec<(Scalar<K>, T)>);

impl<'de, K, T: Deserialize<'de>> Deserialize<'de> for Named<T, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries(deserializer).map(Self)
    }
}

impl<K: Value, T: JsonSchema> JsonSchema for Named<T, K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}_{}", K::NAME, T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({
            "type": "object",
            "additionalProperties": generator.subschema_for::<T>(),
        });
        if let Some(pattern) = K::KEY_PATTERN {
            schema.insert("propertyNames".to_owned(), json!({ "pattern": pattern }));
        }
        schema
    }
}

/// A single value, or a list or map in place of the value.
#[derive(Debug)]
pub(crate) enum SingleOr<T, B> {
    /// A single value.
    Single(Scalar<T>),
    /// A list or map, with its place.
    Block(Spanned<B>),
}

impl<T, B> SingleOr<T, B> {
    /// Returns the place of the value, if it has one.
    pub(crate) const fn place(&self) -> Option<Place> {
        match self {
            Self::Single(scalar) => scalar.place,
            Self::Block(block) => block.place,
        }
    }
}

impl<'de, T, B: Deserialize<'de>> Deserialize<'de> for SingleOr<T, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, place } = Spanned::<ScalarOr<B>>::deserialize(deserializer)?;
        Ok(match value {
            ScalarOr::Single(raw) => Self::Single(Scalar::new(raw, place)),
            ScalarOr::Block(value) => Self::Block(Spanned { value, place }),
        })
    }
}

impl<T: Value, B: JsonSchema> JsonSchema for SingleOr<T, B> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}_or_{}", T::NAME, B::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let either = [
            generator.subschema_for::<Scalar<T>>(),
            generator.subschema_for::<B>(),
        ];
        json_schema!({ "anyOf": either })
    }
}
