//! What serde_json finds in a document: for the tests of this crate, and for its fuzz target.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Finds the largest number at a path, with all of serde_json's care.
pub(crate) struct AtPath<'a> {
    pub(crate) path: &'a [&'a str],
    /// What a number at the path is that is not a whole one of 64 bits; or why nothing is expected of it.
    pub(crate) fraction: fn(f64) -> Result<Option<u64>, &'static str>,
}

impl<'de> DeserializeSeed<'de> for AtPath<'_> {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<u64>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for AtPath<'_> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Option<u64>, E> {
        Ok(self.path.is_empty().then_some(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<u64>, E> {
        match self.path {
            [] => (self.fraction)(number).map_err(E::custom),
            _ => Ok(None),
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<u64>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<u64>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<u64>, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.path.split_first() {
                Some((name, rest)) if *name == key => {
                    let value = map.next_value_seed(AtPath { path: rest, ..self })?;
                    found = found.max(value);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}
