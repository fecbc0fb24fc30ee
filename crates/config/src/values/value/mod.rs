//! The single values of the configuration: the form of each kind of value, and the code that reads it.
//!
//! A [`Scalar`] is a value as written, with its place. The YAML reader keeps the value as text, and the check fills in its variables and
//! parses it. So the errors of all values are reported together. A type that implements [`Value`] is one kind of value.

pub(crate) mod answers;
pub(crate) mod client;
pub(crate) mod header;
mod json_path;
pub(crate) mod net;
pub(crate) mod number;
mod settings;
pub(crate) mod size;
pub(crate) mod word;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use crate::yaml::{Place, Problem, Spanned};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::Deserializer;

/// A kind of value.
pub(crate) trait Value: Sized {
    /// The name of the kind in the schema.
    const NAME: &'static str;
    /// The kind's noun with an article. In messages it follows "is not".
    const WHAT: &'static str;
    /// The allowed form, for messages.
    const ALLOWED: &'static str;
    /// Whether messages may show a refused value.
    const SHOWN: bool = true;
    /// The regular expression for values that are keys of a map, for the schema. `None` allows any text.
    const KEY_PATTERN: Option<&'static str> = None;
    /// The longest value with its variables filled in, in bytes.
    const MAX_BYTES: usize = 4 << 10;

    /// Reads a value whose variables have been filled in.
    ///
    /// # Errors
    ///
    /// The text is not a valid value of this kind.
    fn read(text: &str) -> Result<Self, Fault>;

    /// Returns the JSON Schema for editors, with `type`, `pattern` and so on. The schema that editors get also allows every value with a
    /// variable.
    fn schema() -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::from_iter([("type".to_owned(), "string".into())])
    }

    /// Returns the allowed words, if the kind is a choice among a few words.
    fn words() -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }
}

/// The reason why a value is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The text does not have the form [`Value::ALLOWED`].
    Form,
    /// The value is refused for this reason. The reason contains no part of the value.
    Because(&'static str),
    /// The value is refused for this reason. The reason quotes the value, so messages show the reason only if the value contains no
    /// variable.
    Quoting(String),
}

impl Fault {
    /// Returns the problem of a refused value. `is_filled` is set if variables were filled in.
    pub(crate) fn problem<T: Value>(self, scalar: &Scalar<T>, is_filled: bool) -> Problem {
        let message = match self {
            Self::Because(reason) => reason.to_owned(),
            Self::Quoting(reason) if T::SHOWN && !is_filled => reason,
            _ if T::SHOWN => format!("`{}` is not {}", scalar.raw, T::WHAT),
            _ => format!("this is not {}", T::WHAT),
        };
        let problem = Problem::new(scalar.place, message);
        let problem = match T::words().next() {
            Some(_) => problem.choices(&scalar.raw, T::words()),
            None => problem.note(format!("allowed here: {}", T::ALLOWED)),
        };
        let problem = match T::SHOWN {
            true => problem,
            false => problem.without_line(),
        };
        if is_filled {
            return problem.note("the value depends on the environment");
        }
        problem
    }
}

/// A value as written, with its place.
pub(crate) struct Scalar<T> {
    /// The text as written, before variables are filled in.
    pub(crate) raw: String,
    /// The place of the value, if it has one.
    pub(crate) place: Option<Place>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Scalar<T> {
    /// Makes a value of this text and place.
    pub(crate) const fn new(raw: String, place: Option<Place>) -> Self {
        let kind = PhantomData;
        Self { raw, place, kind }
    }
}

// Not derived, because the text may be a secret.
impl<T> fmt::Debug for Scalar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scalar({:?})", self.place)
    }
}

impl<'de, T> Deserialize<'de> for Scalar<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, place } = Spanned::<String>::deserialize(deserializer)?;
        Ok(Self::new(value, place))
    }
}

impl<T: Value> JsonSchema for Scalar<T> {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed(T::NAME)
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = Schema::default();
        schema.insert("title".into(), T::WHAT.into());
        schema.insert("description".into(), T::ALLOWED.into());
        let mut written = T::schema();
        let words: Vec<_> = T::words().collect();
        if !words.is_empty() {
            written.insert("enum".into(), words.into());
        }
        let filled_in = serde_json::json!({ "type": "string", "pattern": r"\$\{" });
        schema.insert("anyOf".into(), vec![written.into(), filled_in].into());
        schema
    }
}

#[cfg(test)]
mod tests;
