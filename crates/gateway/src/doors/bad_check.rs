//! The reasons why a check cannot be decided, for the asking program.

use tidegate_doors::{MAX_COST, MAX_HOLD};
use tidegate_store::MAX_CHARGES;

use crate::request::values::{BadValues, Name};

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
    #[error(transparent)]
    Values(#[from] BadValues),
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
            Self::Values(why) => why.error(),
            _ => "bad_check",
        }
    }
}
