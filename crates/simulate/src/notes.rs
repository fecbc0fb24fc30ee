//! Writes notes that explain the numbers of a report, or limit their meaning.

use tidegate_logs::Report as Read;

use crate::arrivals::MAX_PENDING;
use crate::engine::Found;
use crate::report::ConfigurationReport;
use crate::time::{number, percent};

pub(crate) fn notes(
    results: &Found<'_>,
    read: &Read,
    configurations: &[ConfigurationReport],
    retries: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    let times = &results.times;
    if results.stopped {
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
            "{} requests were logged too far out of order to be put in order, the farthest by {} s.",
            number(read.backward),
            number(read.farthest_back / 1_000_000)
        ));
    }
    if read.questions > 0 {
        notes.push(format!(
            "{} lines are decisions by /v1/check or RateLimitService. They are left out: they name limits or descriptors, and describe no request.",
            number(read.questions)
        ));
    }
    if read.lost > 0 {
        notes.push(format!(
            "The log says that {} of its lines were lost.",
            number(read.lost)
        ));
    }
    for of in configurations {
        notes.extend(doubts(of, results));
    }
    let crowded = results
        .candidates
        .iter()
        .map(|tried| tried.arrivals.crowded);
    if let Some(crowded @ 1..) = crowded.max() {
        notes.push(format!(
            "{} requests are in seconds with more than {} requests, or 64 MiB of IDs. Such a second is spread in parts, not evenly.",
            number(crowded),
            number(MAX_PENDING as u64)
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
    let limits = || configurations.iter().flat_map(|it| &it.limits);
    let waits = limits().filter(|limit| limit.delays && limit.asked > 0);
    let mut waits: Vec<&str> = waits.map(|limit| &*limit.name).collect();
    waits.sort_unstable();
    waits.dedup();
    if !waits.is_empty() {
        notes.push(format!(
            "No other quotas are tried for limits with action: delay: {}.",
            waits.join(", ")
        ));
    }
    if limits().any(|limit| !limit.not_computable.is_empty()) {
        notes.push("Where a limit is not computable, it is taken to admit the request.".to_owned());
    }
    notes
}

/// Returns notes about signs that the replay misread the log, or that the log has no suitable traffic for this configuration.
fn doubts(of: &ConfigurationReport, results: &Found<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if of.lacks_routes {
        let cause = match results.times.without_path == results.times.requests {
            true => "No line has a path, so that no",
            false => "No",
        };
        notes.push(format!(
            "{cause} request has a route in {}. Limits of routes were not asked.",
            of.file
        ));
    }
    if of.credentials_refused > 0 {
        notes.push(format!(
            "{} requests have credentials that are refused with 401. Limits under always alone count them.",
            number(of.credentials_refused)
        ));
    }
    if let Some(sole) = of.sole_address {
        notes.push(format!(
            "All requests come from one address, {}. If it is a proxy's, limits per client are not those of its clients.",
            sole.address
        ));
    }
    notes
}
