//! Shapes of the configuration: maps in the order of the file, and values that may be written in two ways.

use std::borrow::Cow;

use crate::yaml::{ScalarOr, Spanned, entries};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer};

use crate::values::value::word::LimitName;
use crate::values::value::{Scalar, Value};

/// A map from names, in the order of the file.
#[derive(Debug)]
pub(crate) struct Named<T>(pub(crate) Vec<(Scalar<LimitName>, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries(deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Named_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9._-]{1,128}$" },
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// A map from any texts, in the order of the file.
#[derive(Debug)]
pub(crate) struct Texts<K, T>(pub(crate) Vec<(Scalar<K>, T)>);

impl<'de, K, T: Deserialize<'de>> Deserialize<'de> for Texts<K, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        entries(deserializer).map(Self)
    }
}

impl<K: Value, T: JsonSchema> JsonSchema for Texts<K, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Texts_{}_{}", K::NAME, T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "additionalProperties": generator.subschema_for::<T>(),
        })
    }
}

/// A single value, or a list or map in its place.
#[derive(Debug)]
pub(crate) enum SingleOr<T, B> {
    /// A single value.
    Single(Scalar<T>),
    /// A list or map, with its place.
    Block(Spanned<B>),
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
