//! The keys of a text with their places, whatever a type would allow.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::yaml::spanned::Spanned;

/// A value, as far as it has keys.
#[derive(Debug)]
pub(crate) enum Keys {
    /// Keys, each with its place and its value.
    Map(Vec<(Spanned<String>, Self)>),
    /// The elements of a list.
    List(Vec<Self>),
    /// A single value.
    Single,
    /// No value, or null.
    Nothing,
}

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Keys;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Keys, E> {
                Ok(Keys::Single)
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Keys, E> {
                Ok(Keys::Single)
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Keys, E> {
                Ok(Keys::Single)
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Keys, E> {
                Ok(Keys::Single)
            }

            fn visit_str<E: Error>(self, _: &str) -> Result<Keys, E> {
                Ok(Keys::Single)
            }

            fn visit_unit<E: Error>(self) -> Result<Keys, E> {
                Ok(Keys::Nothing)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Keys, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    elements.push(element);
                }
                Ok(Keys::List(elements))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Keys, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Keys::Map(entries))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
