//! Types that serde does not have: maps in the order of the file, and values that may be written in two ways.
//!
//! Flattened and untagged types of serde buffer values, and buffered values lose their places. The types of this file do not buffer.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

/// Reads a map as pairs of a key and a value, in the order of the file.
///
/// # Errors
///
/// The value is no map, or an entry is invalid.
pub(crate) fn entries<'de, K, T, D>(deserializer: D) -> Result<Vec<(K, T)>, D::Error>
where
    K: Deserialize<'de>,
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Entries<K, T>(PhantomData<(K, T)>);

    impl<'de, K: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for Entries<K, T> {
        type Value = Vec<(K, T)>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("names, each with what it is")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = map.next_entry()? {
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    deserializer.deserialize_map(Entries(PhantomData))
}

/// A map, or a list in place of the map.
#[derive(Debug)]
pub(crate) enum BlockOr<B, E> {
    /// Keys with values.
    Block(B),
    /// A list.
    List(Vec<E>),
}

impl<'de, B: Deserialize<'de>, E: Deserialize<'de>> Deserialize<'de> for BlockOr<B, E> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<B, E>(PhantomData<(B, E)>);

        impl<'de, B: Deserialize<'de>, E: Deserialize<'de>> Visitor<'de> for Either<B, E> {
            type Value = BlockOr<B, E>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("keys with values, or a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(BlockOr::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                B::deserialize(MapAccessDeserializer::new(map)).map(BlockOr::Block)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<B: JsonSchema, E: JsonSchema> JsonSchema for BlockOr<B, E> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}_or_list", B::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let either = [
            generator.subschema_for::<B>(),
            generator.subschema_for::<Vec<E>>(),
        ];
        json_schema!({ "anyOf": either })
    }
}

/// A single value, or a list or map in place of it. Numbers and booleans are kept as text, too.
#[derive(Debug)]
pub(crate) enum ScalarOr<B> {
    /// A single value.
    Single(String),
    /// A list or map.
    Block(B),
}

impl<'de, B: Deserialize<'de>> Deserialize<'de> for ScalarOr<B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<B>(PhantomData<B>);

        impl<'de, B: Deserialize<'de>> Visitor<'de> for Either<B> {
            type Value = ScalarOr<B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            // YAML reads bare numbers and booleans as types of their own. Both are kept as text, so that the code that reads the value can
            // refuse it with a better message.
            fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
                self.visit_string(value.to_string())
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
                self.visit_string(value.to_string())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
                self.visit_string(value.to_string())
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
                self.visit_string(value.to_string())
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
                self.visit_string(value.to_owned())
            }

            fn visit_string<E: Error>(self, value: String) -> Result<Self::Value, E> {
                Ok(ScalarOr::Single(value))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                B::deserialize(List(list)).map(ScalarOr::Block)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                B::deserialize(MapAccessDeserializer::new(map)).map(ScalarOr::Block)
            }
        }

        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// A wrapper of a list, so that serde cannot read the list as a struct. Without the wrapper, serde would take the list's elements for the
/// fields of a struct, in order.
struct List<A>(A);

impl<'de, A: SeqAccess<'de>> Deserializer<'de> for List<A> {
    type Error = A::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_seq(self.0)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, A::Error> {
        let expected = "a single value, or keys with values (`key: value`)";
        Err(Error::invalid_type(Unexpected::Seq, &expected))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
