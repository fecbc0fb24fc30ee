//! What is logged, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::plan::LogFormat;
use crate::config::value::{Leaf, Level};

/// What is logged.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Log {
    /// How a line looks: text or json. Default: text.
    pub(in crate::config) format: Option<Leaf<LogFormat>>,
    /// Whether every request gets a line. Default: true.
    pub(in crate::config) access: Option<Leaf<bool>>,
    /// The least important level: error, warn, info, debug, trace or off. Default: info.
    pub(in crate::config) level: Option<Leaf<Level>>,
}
