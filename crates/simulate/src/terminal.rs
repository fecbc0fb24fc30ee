//! The report as text for a terminal.

use std::fmt::Write as _;

use crate::plain::plain;
use crate::range::Range;
use crate::report::{ConfigurationReport, LimitReport, NeededQuota, Report};
use crate::table::Table;
use crate::time::{number, percents, range, wait};

/// Formats the report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut text = String::new();
    let log = &report.log;
    let formats: Vec<&str> = log.files.iter().map(|file| file.format).collect();
    let mut names = formats.clone();
    names.dedup();
    let files = match &log.files[..] {
        [file] => plain(&file.path).into_owned(),
        files => format!("{} files", files.len()),
    };
    let span = match (&log.from, &log.to) {
        (Some(from), Some(to)) => format!(", {from} to {to} UTC"),
        _ => String::new(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{files} ({}): {} requests{span}",
        names.join(", "),
        number(log.requests)
    );
    if log.unreadable > 0 {
        let _ = writeln!(text, "{} lines could not be read:", number(log.unreadable));
        for line in &log.first_unreadable {
            let _ = writeln!(text, "  {}", plain(line));
        }
    }
    if report.configurations.len() > 1 {
        text.push('\n');
        side_by_side(&mut text, &report.configurations);
    }
    for configuration in &report.configurations {
        text.push('\n');
        one(&mut text, configuration);
    }
    if !report.notes.is_empty() {
        text.push('\n');
    }
    for note in &report.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// Writes a table of refused requests, with a column for each configuration.
fn side_by_side(text: &mut String, configurations: &[ConfigurationReport]) {
    let mut table = Table::default();
    let files = configurations.iter().map(|it| plain(&it.file).into_owned());
    table.row(std::iter::once("REFUSED".to_owned()).chain(files));
    for row in rows(configurations) {
        table.row(row);
    }
    text.push_str(&table.text());
}

/// Returns the rows of refused requests: one row for all limits together, then one row for each limit. A name and a cell for each
/// configuration make a row.
pub(crate) fn rows(configurations: &[ConfigurationReport]) -> Vec<Vec<String>> {
    let mut names: Vec<&str> = Vec::new();
    for limit in configurations.iter().flat_map(|it| &it.limits) {
        if !names.contains(&&*limit.name) {
            names.push(&limit.name);
        }
    }
    let all = configurations.iter();
    let all = all.map(|it| refused(it.refused, it.requests));
    let all = std::iter::once("all limits".to_owned()).chain(all);
    let limits = names.into_iter().map(|name| {
        let cells = configurations.iter().map(|it| {
            let limit = it.limits.iter().find(|limit| limit.name == name);
            match limit {
                Some(limit) if is_computable(limit) => refused(limit.refused, limit.asked),
                Some(_) => "not computable".to_owned(),
                None => "-".to_owned(),
            }
        });
        std::iter::once(name.to_owned()).chain(cells).collect()
    });
    std::iter::once(all.collect()).chain(limits).collect()
}

/// Formats the number and the share of refused requests.
pub(crate) fn refused(refused: Range, of: u64) -> String {
    format!("{} ({})", range(refused), percents(refused, of))
}

/// Returns the results other than admitted and refused requests that are not 0: the number, the words in a sentence, and the words in a
/// heading.
pub(crate) fn others(
    it: &ConfigurationReport,
) -> impl Iterator<Item = (Range, &'static str, &'static str)> {
    let all = [
        (
            it.would_refuse,
            "that observed limits would refuse",
            "observed limits would refuse",
        ),
        (it.delayed, "delayed", "delayed"),
        (
            it.admitted_later,
            "admitted after they came again",
            "admitted when they came again",
        ),
        (it.denied.into(), "denied", "denied"),
        (it.oversized.into(), "too costly", "too costly"),
        (it.shed.into(), "shed", "shed"),
        (
            it.credentials_refused.into(),
            "with refused credentials",
            "with refused credentials",
        ),
        (it.without_route.into(), "without route", "without route"),
        (
            it.route_unknown.into(),
            "whose route is not in the log",
            "route not in the log",
        ),
    ];
    all.into_iter().filter(|(count, ..)| count.high > 0)
}

fn one(text: &mut String, it: &ConfigurationReport) {
    let _ = write!(
        text,
        "{}: {} admitted, {} refused ({})",
        plain(&it.file),
        range(it.admitted),
        range(it.refused),
        percents(it.refused, it.requests)
    );
    for (count, what, _) in others(it) {
        let _ = write!(text, ", {} {what}", range(count));
    }
    text.push('\n');
    let mut table = Table::default();
    let head = [
        "LIMIT",
        "ASKED",
        "ADMITTED",
        "REFUSED",
        "SHARE",
        "DELAYED",
        "LONGEST",
        "CLIENTS",
        "FIRST",
        "WORST MINUTE",
    ];
    table.row(head.map(str::to_owned));
    for limit in it.limits.iter().filter(|limit| limit.asked > 0) {
        let name = match limit.observes {
            true => format!("{} (observes)", limit.name),
            false => limit.name.clone(),
        };
        table.row([
            name,
            number(limit.asked),
            range(limit.admitted),
            range(limit.refused),
            percents(limit.refused, limit.asked),
            range(limit.delayed),
            wait(limit.longest_delay_ms),
            format!("{} of {}", range(limit.clients_refused), number(limit.keys)),
            limit
                .first_refused
                .as_deref()
                .map_or_else(|| "-".to_owned(), minute),
            limit.worst_minute.as_ref().map_or_else(
                || "-".to_owned(),
                |worst| format!("{} ({})", minute(&worst.at), number(worst.refused)),
            ),
        ]);
    }
    if it.limits.iter().any(|limit| limit.asked > 0) {
        text.push_str(&table.text());
    }
    for limit in &it.limits {
        for lack in &limit.not_computable {
            let _ = writeln!(
                text,
                "{}: not computable for {} requests, for the log has no {}",
                limit.name,
                number(lack.requests),
                plain(&lack.log_lacks)
            );
        }
        if limit.asked == 0 && limit.not_computable.is_empty() {
            let aside = match it.credentials_refused {
                0 => String::new(),
                count => format!("; {} with refused credentials did not count", number(count)),
            };
            let _ = writeln!(text, "{}: no request met it{aside}", limit.name);
        }
    }
    quotas(text, it);
    if !it.top.is_empty() {
        let top = it.top.iter().take(5);
        let top: Vec<String> = top
            .map(|top| {
                format!(
                    "{} {} ({})",
                    plain(&top.client),
                    range(top.refused),
                    top.limit
                )
            })
            .collect();
        let _ = writeln!(text, "refused most: {}", top.join(", "));
    }
}

/// Writes each limit's smallest tried quotas that refuse no request, at most 0.1 % and at most 1 % of the requests.
fn quotas(text: &mut String, it: &ConfigurationReport) {
    let limits = it.limits.iter();
    let limits: Vec<_> = limits
        .filter(|limit| is_computable(limit) && limit.asked > 0)
        .collect();
    if limits.is_empty()
        || limits
            .iter()
            .all(|limit| limit.needed.iter().all(|it| it.of == 0))
    {
        return;
    }
    let mut table = Table::default();
    let head = ["QUOTA THAT REFUSES", "NOTHING", "0.1 %", "1 %", "NOW"];
    table.row(head.map(str::to_owned));
    for limit in limits {
        let cells = limit.needed.iter().map(shown);
        let cells: Vec<String> = cells.collect();
        let name = std::iter::once(limit.name.clone());
        table.row(name.chain(cells).chain([limit.quota.clone()]));
    }
    text.push_str(&table.text());
}

/// Formats a needed capacity, with the largest tried capacity that refuses more.
pub(crate) fn shown(needed: &NeededQuota) -> String {
    match (needed.capacity, needed.more_at) {
        (Some(capacity), Some(more)) if more + 1 < capacity => {
            format!("{} (more than {})", number(capacity), number(more))
        }
        (Some(capacity), Some(_)) => number(capacity),
        (Some(capacity), None) => format!("{} or less", number(capacity)),
        (None, Some(more)) => format!("more than {}", number(more)),
        (None, None) => "-".to_owned(),
    }
}

/// Removes the seconds of a time, if they are 0.
fn minute(time: &str) -> String {
    time.strip_suffix(":00").unwrap_or(time).to_owned()
}

/// Whether the limit was computed for a request, or no request met the limit.
const fn is_computable(limit: &LimitReport) -> bool {
    limit.asked > 0 || limit.not_computable.is_empty()
}
