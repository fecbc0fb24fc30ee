//! The single values of the configuration: what each kind reads like, and how it is read.
//!
//! A [`Scalar`] is a value as written, with its place. What it stands for is known once its variables are filled in. So the check
//! reads it, and can then tell all that is wrong at once. [`Value`] is one kind of value.

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
    /// Its name in the schema.
    const NAME: &'static str;
    /// What it is, to go on after "is not".
    const WHAT: &'static str;
    /// What it looks like.
    const ALLOWED: &'static str;
    /// Whether a value may be shown when it is refused.
    const SHOWN: bool = true;
    /// The regular expression of keys of a map, in the schema; none: any text.
    const KEY_PATTERN: Option<&'static str> = None;
    /// The longest value, in bytes, with its variables filled in.
    const MAX_BYTES: usize = 4 << 10;

    /// Reads a value whose variables have been filled in.
    ///
    /// # Errors
    ///
    /// The text is no such value.
    fn read(text: &str) -> Result<Self, Fault>;

    /// What editors check: a JSON Schema of `type` and `pattern` and so on. A value that holds a
    /// variable is always let through.
    fn schema() -> serde_json::Map<String, serde_json::Value> {
        serde_json::Map::from_iter([("type".to_owned(), "string".into())])
    }

    /// The words there are, if they are few.
    fn words() -> impl Iterator<Item = &'static str> {
        std::iter::empty()
    }
}

/// Why a value is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not look like [`Value::ALLOWED`].
    Form,
    /// It does, but; the text holds nothing of the value.
    Because(&'static str),
    /// It does, but; the text quotes the value, so it is told only if that was written as it is.
    Quoting(String),
}

impl Fault {
    /// The problem with a value: as it was written, and whether variables were filled in since.
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
    /// As it is written, before variables are filled in.
    pub(crate) raw: String,
    /// Where it stands, if that is known.
    pub(crate) place: Option<Place>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Scalar<T> {
    /// A value that is written so, at this place.
    pub(crate) const fn new(raw: String, place: Option<Place>) -> Self {
        let kind = PhantomData;
        Self { raw, place, kind }
    }
}

// Not derived: what is written may be a secret.
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
