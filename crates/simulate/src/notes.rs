//! What is to be known of the numbers of a report.

use tidegate_logs::Report as Read;

use crate::engine::Found;
use crate::report::ConfigurationReport;
use crate::time::{number, percent};

pub(crate) fn notes(
    found: &Found<'_>,
    read: &Read,
    configurations: &[ConfigurationReport],
    retries: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let times = &found.times;
    if found.stopped {
        notes.push("The replay was stopped before the end of the log.".to_owned());
    }
    if times.coarse > 0 {
        notes.push(
            "The log has whole seconds. A range is from requests spread evenly over each second to all at once.".to_owned(),
        );
    }
    if times.ends > 0 {
        notes.push(format!(
            "{} requests have the time of their end, and no duration. They arrived earlier.",
            number(times.ends)
        ));
    }
    if read.backward > 0 {
        notes.push(format!(
            "{} requests were logged more than 60 s out of order, the farthest by {} s.",
            number(read.backward),
            number(read.farthest_back / 1_000_000)
        ));
    }
    if read.lost > 0 {
        notes.push(format!(
            "The log says that {} of its lines were lost.",
            number(read.lost)
        ));
    }
    let before = configurations.iter().map(|it| it.limited_before).max();
    if let Some(before @ 1..) = before {
        notes.push(format!(
            "{} requests ({}) were refused when they were logged. They hide demand: how they would have gone on is not known.",
            number(before),
            percent(before, times.requests)
        ));
    }
    let refuses = configurations.iter().any(|it| it.refused.high > 0);
    if retries {
        notes.push("Refused requests come again after their Retry-After, ten times at most. This is a model.".to_owned());
    } else if refuses {
        notes.push(
            "What refused clients would have done next is not in a log. --retry after models it."
                .to_owned(),
        );
    }
    let limits = configurations.iter().flat_map(|it| &it.limits);
    let mut waits: Vec<&str> = limits
        .filter(|limit| limit.delays && limit.asked > 0)
        .map(|limit| &*limit.name)
        .collect();
    waits.sort_unstable();
    waits.dedup();
    if !waits.is_empty() {
        notes.push(format!(
            "No other quotas are tried for limits with action: delay: {}.",
            waits.join(", ")
        ));
    }
    let lacks = configurations.iter().flat_map(|it| &it.limits);
    if lacks
        .into_iter()
        .any(|limit| !limit.not_computable.is_empty())
    {
        notes.push("Where a limit is not computable, it is taken to admit the request.".to_owned());
    }
    notes
}
