//! Reads JSON objects strictly.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that JSON has as an object. Serde would also read an array as the fields of a struct, in their order.
#[derive(Debug)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

struct OfMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Reads an object of texts. Refuses an object that has a name twice.
pub(super) fn without_repeats<'de, D>(
    deserializer: D,
) -> Result<BTreeMap<Box<str>, Box<str>>, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Texts)
}

struct Texts;

impl<'de> Visitor<'de> for Texts {
    type Value = BTreeMap<Box<str>, Box<str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut texts = BTreeMap::new();
        while let Some((name, text)) = map.next_entry::<Box<str>, Box<str>>()? {
            if texts.insert(name, text).is_some() {
                return Err(A::Error::custom("a name is there twice"));
            }
        }
        Ok(texts)
    }
}
