//! The settings of the access log, as they are written.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::value::{AccessFormatText, FilePath, Sample, Scalar, StatusRange};
use tidegate_telemetry::RequestOutcome;
use tidegate_telemetry::access_log::AccessField;
use tidegate_yaml::Spanned;

/// An access log that has settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessLog {
    /// The file that lines are appended to; SIGUSR1 opens it again. Default: standard error.
    pub(crate) file: Option<Scalar<FilePath>>,
    /// How a line looks: text, json, common, combined, or a template such as "$peer $status". Default: as `log.format`.
    pub(crate) format: Option<Scalar<AccessFormatText>>,
    /// The fields of text and json lines. Default: most; docs/operations.md lists them.
    pub(crate) fields: Option<Spanned<Vec<Scalar<AccessField>>>>,
    /// The requests that get a line: those that meet one of these conditions. Default: all.
    pub(crate) filter: Option<Spanned<AccessFilter>>,
    /// How many of the requests get a line that were forwarded and have nothing else to tell. Default: 100%.
    pub(crate) sample: Option<Scalar<Sample>>,
}

/// Which requests get a line.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub(crate) struct AccessFilter {
    /// Those with these statuses, such as 404 or 5xx.
    pub(crate) status: Option<Vec<Scalar<StatusRange>>>,
    /// Those with these outcomes, such as limited.
    pub(crate) outcome: Option<Vec<Scalar<RequestOutcome>>>,
    /// Those that took at least so long.
    pub(crate) duration: Option<Scalar<Duration>>,
}
