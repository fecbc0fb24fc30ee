//! `--suggest`: quotas for each limit, found by replaying the log with closer and closer quotas.

use std::fmt::Write as _;

use tidegate_core::Quota;
use tidegate_logs::Reader;

use crate::collect::{Allowed, needed};
use crate::engine::{Found, Replay, Steps, Trial, replay};
use crate::ladder::rounded;
use crate::lane::Lane;
use crate::report::{Suggestion, Suggestions};
use crate::time::number;

/// How many quotas are tried between two that are known to be too small and large enough.
const BETWEEN: u64 = 20;

/// Suggests quotas that refuse no request of most clients, but of so many of a million. The log is read again. None if that was ended
/// early: what a part of the log says is no suggestion.
pub(crate) fn suggest(
    trials: &[Trial<'_>],
    (first, allowed): (&Found<'_>, Allowed),
    again: &Replay<'_>,
    mut open: impl FnMut() -> Result<Reader, String>,
    go_on: &mut dyn FnMut(&Reader) -> bool,
) -> Result<Option<Vec<Suggestions>>, String> {
    let closer = first.candidates.iter().map(|tried| {
        let limits = 0..tried.trial.plan.limits.len();
        limits
            .map(|number| between(&tried.lanes, number, allowed))
            .collect()
    });
    let steps = Steps::At(closer.collect());
    let second = Replay {
        steps,
        ..again.again()
    };
    let found = replay(trials, &mut open()?, &second, go_on)?;
    if found.stopped {
        return Ok(None);
    }
    let all = found.candidates.iter().zip(trials).map(|(tried, trial)| {
        let limits = trial.plan.limits.iter().enumerate();
        let limits = limits.filter_map(|(number, limit)| {
            let needed = needed(&tried.lanes, number, allowed);
            let capacity = needed.capacity?;
            let quota = match capacity == limit.quota().capacity() {
                true => *limit.quota(),
                false => limit.quota().with_capacity(capacity).ok()?,
            };
            (needed.of > 0).then(|| Suggestion {
                limit: limit.name().to_owned(),
                yaml: yaml(&quota),
                capacity,
                refused: needed.refused.unwrap_or(0),
                of: needed.of,
                clients: needed.clients.unwrap_or(0),
                of_clients: needed.of_clients,
                more_at: needed.more_at,
            })
        });
        Suggestions {
            file: trial.name.to_owned(),
            untouched_percent: 100.0 - allowed.percent(),
            limits: limits.collect(),
        }
    });
    Ok(Some(all.collect()))
}

/// Capacities between the one that refuses too much and the one that does not.
fn between(lanes: &[Lane<'_>], number: usize, allowed: Allowed) -> Vec<u64> {
    let needed = needed(lanes, number, allowed);
    let (low, high) = match (needed.more_at, needed.capacity) {
        (Some(low), Some(high)) => (low, high),
        // Even less may do.
        (None, Some(high)) => (0, high),
        // Not even the largest does.
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

/// A quota as it stands in a configuration, such as `token_bucket: { capacity: 20, refill: 5/s }`.
pub(crate) fn yaml(quota: &Quota) -> String {
    let written = quota.written();
    let pairs = written.split(", ").map(|pair| pair.replacen(' ', ": ", 1));
    // A window of the calendar is written as any fixed one.
    let algorithm = match quota.calendar() {
        Some(_) => "fixed_window",
        None => quota.algorithm(),
    };
    format!(
        "{algorithm}: {{ {} }}",
        pairs.collect::<Vec<_>>().join(", ")
    )
}

/// What is suggested, as YAML to paste.
pub(crate) fn text(suggestions: &[Suggestions]) -> String {
    let mut text = String::new();
    for of in suggestions {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "\n# {}: quotas that refuse no request of {} % of the clients; each limit alone\nlimits:",
            of.file, of.untouched_percent
        );
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
                number(it.refused),
                number(it.of),
                number(it.clients),
                number(it.of_clients)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{FixedWindow, Rate, TokenBucket};

    #[test]
    fn a_quota_is_written_as_a_configuration_has_it() {
        let rate = Rate {
            count: 5,
            per: 1_000_000,
        };
        let bucket = TokenBucket::new(20, rate).unwrap();
        assert_eq!(
            yaml(&bucket.into()),
            "token_bucket: { capacity: 20, refill: 5/s }"
        );
        let window = FixedWindow::new(9, 60_000_000).unwrap();
        assert_eq!(
            yaml(&window.into()),
            "fixed_window: { limit: 9, window: 1m }"
        );
    }
}
