//! `--suggest`: replays the log a second time, at quotas that are closer together, to find a quota for each limit.

use std::fmt::Write as _;

use tidegate_core::Quota;
use tidegate_logs::Reader;

use crate::collect::{Allowed, needed};
use crate::engine::{Found, Replay, Trial, Tried, delays, replay};
use crate::ladder::rounded;
use crate::lane::Lane;
use crate::plain::plain;
use crate::report::{NeededQuota, Suggestion, Suggestions, Unsuggested};
use crate::time::number as number_of;

/// Number of steps in capacity from a quota that is too small to a quota that is large enough.
const BETWEEN: u64 = 20;

/// Suggests quotas that refuse requests of at most the `allowed` share of the clients. Reads the log again. `None` if a stop ended the
/// replay early, because a part of the log is no basis for a suggestion.
pub(crate) fn suggest(
    trials: &[Trial<'_>],
    (first, allowed): (&Found<'_>, Allowed),
    again: &Replay<'_>,
    mut open: impl FnMut() -> Result<Reader, String>,
    go_on: &mut dyn FnMut(&Reader) -> bool,
) -> Result<Option<Vec<Suggestions>>, String> {
    let closer = first.candidates.iter().map(|tried| {
        let limits = 0..tried.trial.settings.limits.len();
        limits
            .map(|number| between(&tried.lanes, number, allowed))
            .collect()
    });
    let second = Replay {
        capacities: Some(closer.collect()),
        decisions: None,
        ..*again
    };
    let results = replay(trials, &mut open()?, &second, go_on)?;
    if results.stopped {
        return Ok(None);
    }
    let all = results.candidates.iter().map(|tried| {
        let mut suggestions = Suggestions {
            file: tried.trial.name.to_owned(),
            untouched_percent: 100.0 - allowed.percent(),
            limits: Vec::new(),
            without: Vec::new(),
        };
        for number in 0..tried.trial.settings.limits.len() {
            match suggestion(tried, number, allowed) {
                Ok(suggestion) => suggestions.limits.push(suggestion),
                Err(without) => suggestions.without.push(without),
            }
        }
        suggestions
    });
    Ok(Some(all.collect()))
}

/// Returns the suggestion for one limit, or the reason why the limit has no suggestion.
fn suggestion(
    tried: &Tried<'_>,
    number: usize,
    allowed: Allowed,
) -> Result<Suggestion, Unsuggested> {
    let limit = &tried.trial.settings.limits[number];
    let needed = needed(&tried.lanes, number, allowed);
    let (Some(capacity), Some(written), 1..) = (needed.capacity, &needed.quota, needed.of) else {
        return Err(Unsuggested {
            limit: limit.name().to_owned(),
            why: why_none(tried, number, &needed),
        });
    };
    Ok(Suggestion {
        limit: limit.name().to_owned(),
        yaml: yaml(limit.quota(), written),
        capacity,
        refused: needed.refused.unwrap_or(0),
        of: needed.of,
        clients: needed.clients.unwrap_or(0),
        of_clients: needed.of_clients,
        more_at: needed.more_at,
    })
}

/// Returns the reason why a limit has no suggested quota.
fn why_none(tried: &Tried<'_>, number: usize, needed: &NeededQuota) -> String {
    let limit = &tried.trial.settings.limits[number];
    let lanes = tried.lanes.iter();
    let requests = lanes.map(|lane| lane.stats.limits[number].requests).max();
    let requests = requests.unwrap_or(0);
    let mut lacking = tried.candidate.lacking.keys();
    let is_lacking = lacking.any(|(limit, _)| usize::from(*limit) == number);
    match needed.more_at {
        _ if requests == 0 && is_lacking => "it could be computed for no request".to_owned(),
        _ if requests == 0 && tried.candidate.counts.credentials_refused > 0 => {
            "no request met it whose credentials are not refused".to_owned()
        }
        _ if requests == 0 => "no request met it".to_owned(),
        _ if delays(tried.trial.settings, limit) => {
            "requests wait for it by action: delay".to_owned()
        }
        _ if limit.quota().is_share() => "it has no quota of its own".to_owned(),
        _ if needed.of == 0 => "all its clients have plans with quotas of their own".to_owned(),
        Some(more_at) => format!(
            "{} is too small, and no larger one was tried",
            number_of(more_at)
        ),
        None => "no other quota can be tried".to_owned(),
    }
}

/// Returns capacities between the largest tried capacity that refuses too much and the smallest tried capacity that is sufficient.
fn between(lanes: &[Lane<'_>], number: usize, allowed: Allowed) -> Vec<u64> {
    let needed = needed(lanes, number, allowed);
    let (low, high) = match (needed.more_at, needed.capacity) {
        (Some(low), Some(high)) => (low, high),
        // The smallest tried capacity is large enough, and smaller ones may be, too.
        (None, Some(high)) => (0, high),
        // The largest tried capacity is too small.
        (Some(low), None) => (low, low.saturating_mul(64)),
        (None, None) => return Vec::new(),
    };
    let steps = (0..=BETWEEN).map(|step| {
        let at = u128::from(low) + u128::from(high - low) * u128::from(step) / u128::from(BETWEEN);
        match step {
            0 => low,
            BETWEEN => high,
            _ => rounded(at).clamp(low, high),
        }
    });
    steps.filter(|capacity| *capacity > 0).collect()
}

/// Formats a quota as in a configuration, such as `token_bucket: { capacity: 20, refill: 5/s }`.
fn yaml(quota: &Quota, written: &str) -> String {
    let pairs = written.split(", ").map(|pair| pair.replacen(' ', ": ", 1));
    // A configuration writes a calendar window as a `fixed_window`.
    let algorithm = match quota.calendar() {
        Some(_) => "fixed_window",
        None => quota.algorithm(),
    };
    format!(
        "{algorithm}: {{ {} }}",
        pairs.collect::<Vec<_>>().join(", ")
    )
}

/// Formats the suggestions as YAML to paste.
pub(crate) fn text(suggestions: &[Suggestions]) -> String {
    let mut text = String::new();
    for of in suggestions {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n# {}: quotas that refuse no request of {} % of the clients; each limit alone",
            plain(&of.file),
            of.untouched_percent
        );
        for it in &of.without {
            let _ = writeln!(text, "# {}: none is suggested, for {}", it.limit, it.why);
        }
        if !of.limits.is_empty() {
            text.push_str("limits:\n");
        }
        let lines = of.limits.iter();
        let lines = lines.map(|it| format!("  {}: {{ {} }}", it.limit, it.yaml));
        let lines: Vec<String> = lines.collect();
        let width = lines.iter().map(String::len).max().unwrap_or(0);
        for (line, it) in lines.iter().zip(&of.limits) {
            let more = match it.more_at {
                Some(more) if more + 1 < it.capacity => format!("; {more} is too small"),
                _ => String::new(),
            };
            let _ = writeln!(
                text,
                "{line:<width$}  # refuses {} of {} requests, of {} of {} clients{more}",
                number_of(it.refused),
                number_of(it.of),
                number_of(it.clients),
                number_of(it.of_clients)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{FixedWindow, Rate, TokenBucket};

    struct One;

    impl crate::Router for One {
        fn route(&self, _: &mut http::Request<()>) -> Option<usize> {
            Some(0)
        }
    }

    #[test]
    fn nothing_is_suggested_by_a_part_of_the_log() {
        let yaml = "listen: 127.0.0.1:0
clients: [{ ip: {} }]
limits: { it: { fixed_window: { limit: 1, window: 1h } } }
routes: [{ path: /**, upstream: http://127.0.0.1:9, limits: [it] }]
";
        let parsed = tidegate_config::parse("gateway.yaml", yaml, |_| None);
        let (settings, _) = parsed.expect("a configuration");
        let trials = [Trial {
            name: "gateway.yaml",
            settings: &settings,
            router: &One,
        }];
        let folder = tempfile::tempdir().expect("a folder");
        let log = folder.path().join("access.log");
        let line =
            "192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"-\"\n";
        std::fs::write(&log, line.repeat(9)).expect("a log");
        let open = || Reader::open(&[&log], Default::default()).map_err(|it| it.to_string());
        let given = crate::request::Given::default();
        let base = Replay {
            given: &given,
            retries: crate::lane::RetryModel::None,
            capacities: None,
            decisions: None,
        };
        let first = replay(&trials, &mut open().expect("a log"), &base, &mut |_| true);
        let first = first.expect("a replay");
        let of = |goes_on: bool| {
            let by = (&first, Allowed::Clients(0));
            suggest(&trials, by, &base, open, &mut |_| goes_on).expect("a replay")
        };
        assert!(of(true).is_some_and(|all| all[0].limits[0].capacity == 9));
        assert!(of(false).is_none());
    }

    #[test]
    fn a_quota_is_written_as_a_configuration_has_it() {
        let rate = Rate {
            count: 5,
            per: 1_000_000,
        };
        let bucket = TokenBucket::new(20, rate).unwrap().into();
        let window = FixedWindow::new(9, 60_000_000).unwrap().into();
        let of = |quota: Quota| yaml(&quota, &quota.written());
        assert_eq!(of(bucket), "token_bucket: { capacity: 20, refill: 5/s }");
        assert_eq!(of(window), "fixed_window: { limit: 9, window: 1m }");
    }
}
