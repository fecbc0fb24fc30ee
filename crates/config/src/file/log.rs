//! What is logged, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::access_log::AccessLog;
use crate::shape::SingleOr;
use crate::value::{Level, Scalar};
use tidegate_telemetry::log::LogFormat;

/// What is logged.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// How a line looks: text or json. Default: text.
    pub(crate) format: Option<Scalar<LogFormat>>,
    /// Whether every request gets a line: true, false, or `{ file, format, fields, filter, sample }`. Default: true.
    pub(crate) access: Option<SingleOr<bool, AccessLog>>,
    /// The least important level: error, warn, info, debug, trace or off. Default: info.
    pub(crate) level: Option<Scalar<Level>>,
}
