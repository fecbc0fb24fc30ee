//! All keys of a text with their places, including unknown keys.

use serde::de::{Deserialize, Deserializer};

use crate::yaml::shape::{BlockOr, ScalarOr, entries};
use crate::yaml::spanned::Spanned;

/// The keys in a value. Texts of single values are not kept.
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

/// Keys with values.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Entries(#[serde(deserialize_with = "entries")] Vec<(Spanned<String>, Keys)>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Option::<ScalarOr<BlockOr<Entries, Self>>>::deserialize(deserializer)?;
        Ok(match value {
            None => Self::Nothing,
            Some(ScalarOr::Single(_)) => Self::Single,
            Some(ScalarOr::Block(BlockOr::List(elements))) => Self::List(elements),
            Some(ScalarOr::Block(BlockOr::Block(Entries(entries)))) => Self::Map(entries),
        })
    }
}
