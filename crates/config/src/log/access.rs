//! `log.access`: the requests that get a line in the access log, and the format of a line.

use std::time::Duration;

use crate::yaml::{Problem, Spanned};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use tidegate_telemetry::RequestOutcome;
use tidegate_telemetry::access_log::{
    AccessField, AccessFilter, AccessFormat, AccessLogSettings, AccessPiece, TemplateError,
};
use tidegate_telemetry::log::LogFormat;

use crate::check::Check;
use crate::value::answers::StatusRange;
use crate::value::number::{bounded, digits, object, pattern};
use crate::value::word::FilePath;
use crate::value::{Fault, Scalar, Value};

/// An access log that has settings.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessLog {
    /// The file to which lines are appended. On SIGUSR1, the gateway opens it again. Default: standard error.
    pub(crate) file: Option<Scalar<FilePath>>,
    /// The format of a line: text, json, common, combined, or a template such as "$peer $status". Default: the value of `log.format`.
    pub(crate) format: Option<Scalar<AccessFormat>>,
    /// The fields of text and json lines. Default: most fields; docs/operations.md lists them.
    pub(crate) fields: Option<Spanned<Vec<Scalar<AccessField>>>>,
    /// The requests that get a line: requests that meet any of these conditions. Default: all requests.
    pub(crate) filter: Option<Spanned<WrittenAccessFilter>>,
    /// The share of forwarded requests that get a line. Answers with a status from 500 up, and requests that a limit with `action: observe`
    /// would have refused, always get a line. Default: 100%.
    pub(crate) sample: Option<Scalar<Sample>>,
    /// The most lines per second for requests that the gateway refuses. Default: no bound.
    pub(crate) max_refusals_per_second: Option<Scalar<Refusals>>,
}

bounded!(
    /// Lines per second.
    Refusals(u32),
    1..=1_000_000,
    "a number of lines",
    "a whole number from 1 to 1000000"
);

/// The conditions of `filter`. A request that meets any condition gets a line in the access log.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AccessFilter")]
#[schemars(extend("minProperties" = 1))]
pub(crate) struct WrittenAccessFilter {
    /// Requests with these statuses, such as 404 or 5xx.
    pub(crate) status: Option<Vec<Scalar<StatusRange>>>,
    /// Requests with these outcomes, such as limited.
    pub(crate) outcome: Option<Vec<Scalar<RequestOutcome>>>,
    /// Requests that took at least this time.
    pub(crate) duration: Option<Scalar<Duration>>,
}

/// The formats that have a name. Formats with fields have empty lists here, because the key `fields` sets the lists.
const FORMATS: [(&str, AccessFormat); 4] = [
    ("text", AccessFormat::Text(Vec::new())),
    ("json", AccessFormat::Json(Vec::new())),
    ("common", AccessFormat::Common),
    ("combined", AccessFormat::Combined),
];

impl Value for AccessFormat {
    const NAME: &'static str = "AccessFormat";
    const WHAT: &'static str = "a format of the access log";
    const ALLOWED: &'static str = "text, json, common, combined, or a template with `$` and names of fields, such as \
                                   \"$time $peer $status\"; docs/operations.md lists the fields";

    fn read(text: &str) -> Result<Self, Fault> {
        if let Some((_, format)) = FORMATS.into_iter().find(|(word, _)| *word == text) {
            return Ok(format);
        }
        if !text.contains('$') {
            return Err(Fault::Form);
        }
        let template = AccessPiece::template(text).map(Self::Template);
        template.map_err(|error| match error {
            TemplateError::ControlCharacter => {
                Fault::Because("a template is one line, without control characters")
            }
            TemplateError::Unclosed => Fault::Because("a `${` of the template has no `}`"),
            TemplateError::NoField(name) => Fault::Quoting(format!("there is no field `${name}`")),
        })
    }

    fn schema() -> Map<String, serde_json::Value> {
        let words = FORMATS.map(|(word, _)| word);
        object(json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": r"\$" }] }))
    }
}

/// A share of requests, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample(pub(crate) u32);

impl Value for Sample {
    const NAME: &'static str = "Sample";
    const WHAT: &'static str = "a share";
    const ALLOWED: &'static str =
        "a percentage from 0% to 100% with at most four decimals, such as 1% or 0.1%";

    fn read(text: &str) -> Result<Self, Fault> {
        let number = text.strip_suffix('%').ok_or(Fault::Form)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let whole = digits(whole).ok_or(Fault::Form)?;
        if !(1..=4).contains(&decimals.len()) || !decimals.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(Fault::Form);
        }
        let decimals = format!("{decimals:0<4}").parse().map_err(|_| Fault::Form)?;
        let millionths = whole.saturating_mul(10_000).saturating_add(decimals);
        let millionths = u32::try_from(millionths).ok();
        let share = millionths.filter(|share| *share <= AccessLogSettings::ALL);
        share.map(Self).ok_or(Fault::Form)
    }

    fn schema() -> Map<String, serde_json::Value> {
        pattern(r"^[0-9]{1,3}(\.[0-9]{1,4})?%$")
    }
}

pub(crate) fn access_log(
    check: &mut Check<'_>,
    written: &AccessLog,
    usual: LogFormat,
) -> AccessLogSettings {
    let format = check.read_some(written.format.as_ref());
    let format = format.unwrap_or(match usual {
        LogFormat::Text => AccessFormat::Text(Vec::new()),
        LogFormat::Json => AccessFormat::Json(Vec::new()),
    });
    let sample = check.read_some(written.sample.as_ref());
    let filter = access_filter(check, written);
    useless_sample(check, written, filter.as_ref(), sample);
    let refusals = check.read_some(written.max_refusals_per_second.as_ref());
    AccessLogSettings {
        max_refusals_per_second: refusals.map(|Refusals(number)| number),
        file: log_file(check, written),
        format: access_format(check, written, format),
        filter,
        sample: sample.map_or(AccessLogSettings::ALL, |Sample(share)| share),
    }
}

/// Returns the path of the log file. Refuses a path whose folder does not exist, because the gateway could not open the file.
fn log_file(check: &mut Check<'_>, access: &AccessLog) -> Option<std::path::PathBuf> {
    let scalar = access.file.as_ref()?;
    let path = check.path(scalar)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        let problem = Problem::new(scalar.place, format!("`{}` is a folder", scalar.raw));
        check.refuse(problem.note("`file` is the file that lines are appended to"));
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        let message = format!("the folder of `{}` is not there", scalar.raw);
        let note = "make the folder; the gateway makes the file";
        check.refuse(Problem::new(scalar.place, message).note(note));
    }
    Some(path)
}

fn access_format(check: &mut Check<'_>, written: &AccessLog, format: AccessFormat) -> AccessFormat {
    let list = written.fields.as_ref();
    let has_fields = matches!(format, AccessFormat::Text(_) | AccessFormat::Json(_));
    if let Some(list) = list
        && (!has_fields || list.value.is_empty())
    {
        let (problem, remedy) = match has_fields {
            true => (
                "`fields` is empty",
                "name at least one field, or leave `fields` out",
            ),
            false => (
                "`fields` is for `format: text` and `format: json`",
                "a template has its fields in its text, such as \"$time $peer $status\"",
            ),
        };
        check.refuse(Problem::new(list.place, problem).note(remedy));
    }
    let fields = match list {
        None => AccessField::default_fields(),
        Some(list) => {
            let mut fields = Vec::new();
            for scalar in &list.value {
                let Some(field) = check.read(scalar) else {
                    continue;
                };
                if fields.contains(&field) {
                    let twice = format!("`{}` is listed twice", scalar.raw);
                    check.refuse(Problem::new(scalar.place, twice).note("remove one of them"));
                }
                fields.push(field);
            }
            fields
        }
    };
    match format {
        AccessFormat::Text(_) => AccessFormat::Text(fields),
        AccessFormat::Json(_) => AccessFormat::Json(fields),
        other => other,
    }
}

fn access_filter(check: &mut Check<'_>, access: &AccessLog) -> Option<AccessFilter> {
    let written = access.filter.as_ref()?;
    let WrittenAccessFilter {
        status,
        outcome,
        duration,
    } = &written.value;
    let status = status.as_deref().unwrap_or_default();
    let outcome = outcome.as_deref().unwrap_or_default();
    if status.is_empty() && outcome.is_empty() && duration.is_none() {
        let message = "`filter` has no condition, so no request would get a line";
        let note = "add `status`, `outcome` or `duration`, or leave `filter` out";
        check.refuse(Problem::new(written.place, message).note(note));
    }
    let statuses = status.iter().filter_map(|scalar| check.read(scalar));
    let statuses = statuses.map(|StatusRange(from, to)| (from, to)).collect();
    let outcomes = outcome.iter().filter_map(|it| check.read(it)).collect();
    Some(AccessFilter {
        statuses,
        outcomes,
        duration: check.read_some(duration.as_ref()),
    })
}

/// Warns of a `sample` if `filter` chooses only refusals and errors. Refusals and errors always get a line, so `sample` would have no
/// effect.
fn useless_sample(
    check: &mut Check<'_>,
    written: &AccessLog,
    filter: Option<&AccessFilter>,
    sample: Option<Sample>,
) {
    let is_always = |filter: &AccessFilter| {
        let mut statuses = filter.statuses.iter();
        filter.duration.is_none()
            && statuses.all(|(from, to)| *from >= 500 || (*from, *to) == (429, 429))
            && !filter.outcomes.contains(&RequestOutcome::Forwarded)
    };
    if let Some(scalar) = &written.sample
        && sample.is_some_and(|Sample(share)| share < AccessLogSettings::ALL)
        && filter.is_some_and(is_always)
    {
        let message = "`sample` hardly has an effect beside this `filter`";
        check.warn(Problem::new(scalar.place, message).note(format!(
            "it is a share of the requests that `filter` chose, and refusals and errors are always written: for these and {} of \
             all other requests leave out `filter`",
            scalar.raw
        )));
    }
}

#[cfg(test)]
mod tests;
