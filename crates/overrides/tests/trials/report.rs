//! The text about a finding, and the sums over all trials.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_core::Micros;
use tidegate_testkit::trials;

use crate::Judged;
use crate::case::Case;
use crate::history::{FOREVER, History};
use crate::promises::Breach;

/// Sums over many trials.
#[derive(Default)]
pub(crate) struct Figures {
    trials: u64,
    changes: u64,
    failed: u64,
    looks: u64,
    faults: BTreeMap<&'static str, u64>,
    pairs: BTreeMap<(&'static str, &'static str), u64>,
    /// By promise: how often, and the first few trials.
    findings: BTreeMap<&'static str, (u64, Vec<u64>)>,
}

impl trials::Figures<Judged> for Figures {
    fn add(&mut self, trial: &Judged) {
        let Judged {
            case,
            history,
            broken,
        } = trial;
        self.trials += 1;
        self.changes += history.changes.len() as u64;
        let failed = history.changes.iter().filter(|it| !it.is_made());
        self.failed += failed.count() as u64;
        self.looks += history.looks.len() as u64;
        let names = faults(case);
        for (nth, name) in names.iter().enumerate() {
            *self.faults.entry(name).or_default() += 1;
            for other in &names[nth + 1..] {
                *self.pairs.entry((name, other)).or_default() += 1;
            }
        }
        let mut promises: Vec<&'static str> = broken.iter().map(|breach| breach.promise).collect();
        promises.sort_unstable();
        promises.dedup();
        for promise in promises {
            let (count, seeds) = self.findings.entry(promise).or_default();
            *count += 1;
            if seeds.len() < 8 {
                seeds.push(case.name.seed);
            }
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trials,
            changes,
            failed,
            looks,
            ..
        } = self;
        writeln!(
            f,
            "{trials} trials, {changes} changes of which {failed} were not made, {looks} looks"
        )?;
        writeln!(f, "faults:")?;
        for (fault, count) in &self.faults {
            writeln!(f, "  {count:>7} {fault}")?;
        }
        writeln!(f, "pairs of faults: {} kinds", self.pairs.len())?;
        writeln!(f, "findings: {}", self.findings.len())?;
        for (promise, (count, seeds)) in &self.findings {
            writeln!(f, "  {count:>7} {promise}: seeds {seeds:?}")?;
        }
        Ok(())
    }
}

/// Returns the names of all faults of a trial.
fn faults(case: &Case) -> Vec<&'static str> {
    let faults = case.faults.iter();
    let mut names: Vec<&'static str> = faults.map(|fault| fault.mishap.name()).collect();
    names.extend(case.away().map(|_| "away at the start"));
    names.extend(case.has_many().then_some("many overrides"));
    names.extend(case.is_forgetful().then_some("entries dropped soon"));
    names.sort_unstable();
    names
}

/// Returns each breach in one line.
pub(crate) fn lines(case: &Case, broken: &[Breach]) -> Vec<String> {
    let faults = faults(case).join(", ");
    let name = &case.name;
    let lines = broken.iter();
    lines
        .map(|breach| format!("trial {name}: {breach} (faults: {faults})"))
        .collect()
}

/// Returns a finding with its history.
pub(crate) fn finding(case: &Case, history: &History, broken: &[Breach]) -> String {
    let mut text = format!("trial {}\n", case.name);
    let zero = history.lives.iter().map(|life| life.span.begin).min();
    let zero = zero.unwrap_or(0);
    let since = |at: Micros| match at {
        FOREVER.. => f64::INFINITY,
        at => (at as i64 - zero as i64) as f64 / 1_000.0,
    };
    for breach in broken.iter().take(6) {
        text += &format!("  at {:.1}: {breach}\n", since(breach.at));
    }
    let servers = if case.has_sentinels {
        "sentinels"
    } else {
        "one"
    };
    text += &format!("{} gateways, servers: {servers}\n", case.gateways);
    for (nth, extra) in &case.extras {
        text += &format!("  extra {nth}: {extra:?}\n");
    }
    for work in &case.work {
        text += &format!("  {work:?}\n");
    }
    for fault in &case.faults {
        text += &format!("  {fault:?}\n");
    }
    text += "history, times in ms:\n";
    for (at, line) in events(history, since) {
        text += &format!("  {:9.1} {line}\n", since(at));
    }
    text
}

fn events(history: &History, since: impl Fn(Micros) -> f64) -> Vec<(Micros, String)> {
    let mut lines: Vec<(Micros, String)> = Vec::new();
    for change in &history.changes {
        let what = match change.sets {
            Some(ends) => format!("set, ends {ends:?}"),
            None => "clear".to_owned(),
        };
        let line = format!(
            "change {} at gateway {} of subject {}: {what}, if {:?}; at {:.1}: {:?}",
            change.id,
            change.gateway,
            change.subject,
            change.condition,
            since(change.span.end),
            change.answer
        );
        lines.push((change.span.begin, line));
    }
    for life in &history.lives {
        let line = format!(
            "gateway {} lives until {:.1}",
            life.gateway,
            since(life.span.end)
        );
        lines.push((life.span.begin, line));
    }
    for trouble in &history.troubles {
        let of = match trouble.gateway {
            Some(gateway) => format!("gateway {gateway}"),
            None => "all".to_owned(),
        };
        let line = format!(
            "trouble of {of}: {} until {:.1}",
            trouble.kind,
            since(trouble.span.end)
        );
        lines.push((trouble.span.begin, line));
    }
    for step in &history.steps {
        let line = format!("Redis's clock is ahead by {} ms", step.ahead / 1_000);
        lines.push((step.span.begin, line));
    }
    for loss in &history.losses {
        let line = format!("data lost until {:.1}", since(loss.end));
        lines.push((loss.begin, line));
    }
    if let Some(at) = history.converged {
        lines.push((at, "all gateways have the same overrides".to_owned()));
    }
    lines.extend(shown(history));
    lines.sort_by_key(|(at, _)| *at);
    lines
}

/// Returns each change of what a gateway shows.
fn shown(history: &History) -> Vec<(Micros, String)> {
    let mut lines = Vec::new();
    let mut last = BTreeMap::new();
    let mut looks: Vec<_> = history.looks.iter().collect();
    looks.sort_by_key(|look| look.span.begin);
    for look in looks {
        let ids = |entries: &[Option<crate::history::Entry>]| {
            let ids = entries.iter();
            let ids = ids.map(|entry| entry.map_or("-".to_owned(), |it| it.change.to_string()));
            ids.collect::<Vec<_>>().join(" ")
        };
        let (enforced, listed) = (ids(&look.enforced), ids(&look.listed));
        let line = match enforced == listed {
            true => format!("gateway {} shows {enforced}", look.gateway),
            false => format!(
                "gateway {} enforces {enforced} and lists {listed}",
                look.gateway
            ),
        };
        if last.get(&look.gateway) != Some(&line) {
            lines.push((look.span.begin, line.clone()));
            last.insert(look.gateway, line);
        }
    }
    lines
}
