//! The reasons why values name no request.

use std::fmt;

use tidegate_identity::UnknownClient;
use tidegate_net::text::cut;

/// The most values.
pub(super) const MAX_VALUES: usize = 64;
/// The most bytes of a name that an error repeats.
const MAX_NAME: usize = 128;

/// A name in a question, cut for an error.
#[derive(Debug)]
pub(crate) struct Name(Box<str>);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self((*cut(name, MAX_NAME).into_cow()).into())
    }
}

/// The reason why values name no request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadValues {
    #[error("{0}")]
    Client(#[from] UnknownClient),
    #[error("`per`: `{0}` is no part of a request that a limit can be counted per")]
    Part(Name),
    #[error("`per` has at most {MAX_VALUES} values")]
    TooManyValues,
    #[error("`per`: a route is named by `route`")]
    PartRoute,
    #[error("`per`: `{0}` is there twice")]
    PartTwice(Name),
    #[error("`per`: the value of `{0}` is not valid")]
    Value(Name),
    #[error("the limit `{limit}` is counted per `{per}`: {remedy}")]
    Missing {
        limit: Name,
        per: String,
        remedy: &'static str,
    },
}

impl BadValues {
    /// Returns the `error` of the problem details.
    pub(crate) const fn error(&self) -> &'static str {
        match self {
            Self::Client(_) => "unknown_client",
            Self::Missing { .. } => "missing_value",
            _ => "bad_check",
        }
    }
}
