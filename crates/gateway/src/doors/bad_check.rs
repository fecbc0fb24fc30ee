//! The reasons why a check cannot be decided, for the asking program.

use std::fmt;

use tidegate_doors::{MAX_COST, MAX_HOLD};
use tidegate_identity::UnknownClient;
use tidegate_net::text::cut;
use tidegate_store::MAX_CHARGES;

/// The most values of a check.
pub(super) const MAX_VALUES: usize = 64;
/// The most bytes of a name that an error repeats.
const MAX_NAME: usize = 128;

/// A name of a check, cut for an error.
#[derive(Debug)]
pub(super) struct Name(Box<str>);

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

/// The reason why a check cannot be decided.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadCheck {
    #[error("`limits` and `route`: a check has one of them")]
    Subject,
    #[error("a check names at most {MAX_CHARGES} limits")]
    TooManyLimits,
    #[error("the limit `{0}` is named twice")]
    Twice(Name),
    #[error("no limit is called `{0}`")]
    Limit(Name),
    #[error("no route is called `{0}`")]
    Route(Name),
    #[error("{0}")]
    Client(#[from] UnknownClient),
    #[error("`per`: `{0}` is no part of a request that a limit can be counted per")]
    Part(Name),
    #[error("`per` has at most {MAX_VALUES} values")]
    TooManyValues,
    #[error("`per`: a route is named by `route` of the check")]
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
    #[error("`cost` is 1 to {MAX_COST}")]
    Cost,
    #[error("`hold` is 1 to {MAX_HOLD} seconds")]
    Hold,
    #[error(
        "none of the limits holds units: `hold` is for `concurrency`, `count` and costs that answers tell"
    )]
    NoHold,
    #[error("the limit `{0}` counts running requests, so the check needs `hold`")]
    NeedsHold(Name),
}

impl BadCheck {
    /// Returns the `error` of the problem details.
    pub(super) const fn error(&self) -> &'static str {
        match self {
            Self::Limit(_) => "unknown_limit",
            Self::Route(_) => "unknown_route",
            Self::Client(_) => "unknown_client",
            Self::Missing { .. } => "missing_value",
            _ => "bad_check",
        }
    }
}
