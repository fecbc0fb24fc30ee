//! What a route changes in headers.

use http::HeaderName;
use schemars::JsonSchema;
use serde::Deserialize;

use super::shape::Named;
use crate::value::{HeaderText, Scalar};

/// Headers that are set and removed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeaderEdits {
    /// By name, in place of whatever was there.
    pub(crate) set: Option<Named<Scalar<HeaderText>>>,
    /// All of that name.
    pub(crate) remove: Option<Vec<Scalar<HeaderName>>>,
}
