//! What is logged, and how the lines of the access log look.

use crate::file::{self, File, SingleOr};
use crate::plan::LogPlan;
use crate::reading::Check;
use crate::value::{AccessFormatText, Sample, StatusRange};
use tidegate_telemetry::access_log::{AccessField, AccessFilter, AccessFormat, AccessLogSettings};
use tidegate_telemetry::log::LogFormat;
use tidegate_yaml::Problem;

pub(crate) fn log(check: &mut Check<'_>, file: &File) -> LogPlan {
    let log = file.log.as_ref();
    let format = check.read_some(log.and_then(|log| log.format.as_ref()));
    let format = format.unwrap_or_default();
    let access = match log.and_then(|log| log.access.as_ref()) {
        None => Some(access_log(check, None, format)),
        Some(SingleOr::Single(scalar)) => {
            let is_on = check.read(scalar).unwrap_or(true);
            is_on.then(|| access_log(check, None, format))
        }
        Some(SingleOr::Block(block)) => Some(access_log(check, Some(&block.value), format)),
    };
    let level = check.read_some(log.and_then(|log| log.level.as_ref()));
    LogPlan {
        format,
        access,
        level: level.map_or("info", |level| level.0).to_owned(),
    }
}

fn access_log(
    check: &mut Check<'_>,
    written: Option<&file::AccessLog>,
    usual: LogFormat,
) -> AccessLogSettings {
    let format = check.read_some(written.and_then(|access| access.format.as_ref()));
    let format = format.unwrap_or(match usual {
        LogFormat::Text => AccessFormatText::Text,
        LogFormat::Json => AccessFormatText::Json,
    });
    let sample = check.read_some(written.and_then(|access| access.sample.as_ref()));
    AccessLogSettings {
        file: written.and_then(|access| log_file(check, access)),
        format: access_format(check, written, format),
        filter: written.and_then(|access| access_filter(check, access)),
        sample: sample.map_or(AccessLogSettings::ALL, |Sample(share)| share),
    }
}

/// The file of the log. Its folder must be there: the gateway would not start without it.
fn log_file(check: &mut Check<'_>, access: &file::AccessLog) -> Option<std::path::PathBuf> {
    let scalar = access.file.as_ref()?;
    let path = check.file(scalar)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    if path.is_dir() {
        let problem = Problem::new(scalar.place, format!("`{}` is a folder", scalar.raw));
        check.refuse(problem.note("`file` is the file that lines are appended to"));
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        let problem = Problem::new(
            scalar.place,
            format!("the folder of `{}` is not there", scalar.raw),
        );
        check.refuse(problem.note("make the folder; the gateway makes the file"));
    }
    Some(path)
}

fn access_format(
    check: &mut Check<'_>,
    written: Option<&file::AccessLog>,
    format: AccessFormatText,
) -> AccessFormat {
    let list = written.and_then(|access| access.fields.as_ref());
    let has_fields = matches!(format, AccessFormatText::Text | AccessFormatText::Json);
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
        AccessFormatText::Text => AccessFormat::Text(fields),
        AccessFormatText::Json => AccessFormat::Json(fields),
        AccessFormatText::Common => AccessFormat::Common,
        AccessFormatText::Combined => AccessFormat::Combined,
        AccessFormatText::Template(pieces) => AccessFormat::Template(pieces),
    }
}

fn access_filter(check: &mut Check<'_>, access: &file::AccessLog) -> Option<AccessFilter> {
    let written = access.filter.as_ref()?;
    let file::AccessFilter {
        status,
        outcome,
        duration,
    } = &written.value;
    let status = status.as_deref().unwrap_or_default();
    let outcome = outcome.as_deref().unwrap_or_default();
    if status.is_empty() && outcome.is_empty() && duration.is_none() {
        let problem = Problem::new(
            written.place,
            "`filter` has no condition, so no request would get a line",
        );
        check.refuse(problem.note("add `status`, `outcome` or `duration`, or leave `filter` out"));
    }
    let statuses = status.iter().filter_map(|scalar| check.read(scalar));
    let statuses = statuses.map(|StatusRange(from, to)| (from, to)).collect();
    let outcomes = outcome
        .iter()
        .filter_map(|scalar| check.read(scalar))
        .collect();
    Some(AccessFilter {
        statuses,
        outcomes,
        duration: check.read_some(duration.as_ref()),
    })
}
