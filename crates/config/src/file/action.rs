//! How actions, and what is counted, are written down.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{Scalar, Status};
use tidegate_yaml::Spanned;

/// An action that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Action {
    /// A refused request waits for its turn.
    pub(crate) delay: Delay,
}

/// How requests wait.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Delay {
    /// For how long at most, 1h at most; whoever would have to wait for longer is rejected at once.
    pub(crate) max: Scalar<Duration>,
}

/// Which requests stay charged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    /// Those whose answer has one of these statuses, 200 to 599.
    pub(crate) status: Spanned<Vec<Scalar<Status>>>,
}
