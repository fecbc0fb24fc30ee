//! The log of the process and the access log (`log`).

pub(crate) mod access;

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_telemetry::access_log::AccessLogSettings;
use tidegate_telemetry::log::LogFormat;

use crate::check::Check;
use crate::log::access::{AccessLog, access_log};
use crate::shape::SingleOr;
use crate::value::Scalar;
use crate::value::word::choice;

/// The log and the access log.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// The format of lines: text or json. Default: text.
    pub(crate) format: Option<Scalar<LogFormat>>,
    /// Whether every request gets a line: true, false, or `{ file, format, fields, filter, sample }`. Default: true.
    pub(crate) access: Option<SingleOr<bool, AccessLog>>,
    /// The least important level that is logged: error, warn, info, debug, trace or off. Default: info.
    pub(crate) level: Option<Scalar<Level>>,
}

/// The least important level that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Level(pub(crate) &'static str);

choice!(
    Level,
    "Level",
    "a log level",
    ["error", "warn", "info", "debug", "trace", "off"].map(|word| (word, Level(word)))
);

/// The settings of the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The format of a line.
    pub format: LogFormat,
    /// The access log. `None` if requests get no lines.
    pub access: Option<AccessLogSettings>,
    /// The least important level that is logged: `error`, `warn`, `info`, `debug` or `trace`. `off` logs nothing.
    pub level: String,
}

pub(crate) fn log(check: &mut Check<'_>, log: Option<&Log>) -> LogSettings {
    let format = check.read_some(log.and_then(|log| log.format.as_ref()));
    let format = format.unwrap_or_default();
    let usual = AccessLog::default();
    let access = match log.and_then(|log| log.access.as_ref()) {
        None => Some(access_log(check, &usual, format)),
        Some(SingleOr::Single(scalar)) => {
            let is_on = check.read(scalar).unwrap_or(true);
            is_on.then(|| access_log(check, &usual, format))
        }
        Some(SingleOr::Block(block)) => Some(access_log(check, &block.value, format)),
    };
    let level = check.read_some(log.and_then(|log| log.level.as_ref()));
    LogSettings {
        format,
        access,
        level: level.map_or("info", |level| level.0).to_owned(),
    }
}
