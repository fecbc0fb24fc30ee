//! The texts about a finding, and about all trials.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_core::Micros;
use tidegate_testkit::trials;

use crate::Judged;
use crate::case::Case;
use crate::history::{History, Request, Said};
use crate::promises::Breach;

/// The time around a breach that is shown, in us.
const AROUND: Micros = 60_000;

/// Most lines of the history that are shown.
const LINES: usize = 150;

/// Counts over many trials.
#[derive(Default)]
pub(crate) struct Figures {
    trials: u64,
    operations: u64,
    /// The decisions with a short wait, and those of them that had no answer in time.
    short: (u64, u64),
    limits: BTreeMap<String, u64>,
    extras: BTreeMap<&'static str, u64>,
    faults: BTreeMap<&'static str, u64>,
    pairs: BTreeMap<(&'static str, &'static str), u64>,
    /// For each promise: the number of findings, and the first few trials.
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
        self.operations += (history.requests.len() + history.resets.len()) as u64;
        let short = history.requests.iter().filter(|it| it.within.is_some());
        self.short.0 += short.clone().count() as u64;
        self.short.1 += short.filter(|it| it.is_impatient()).count() as u64;
        for limit in &case.limits {
            let mode = if case.in_memory {
                "memory"
            } else {
                limit.mode.word()
            };
            *self
                .limits
                .entry(format!("{:?}, {mode}", limit.kind))
                .or_default() += 1;
        }
        if !case.theme.is_empty() {
            *self.extras.entry(case.theme).or_default() += 1;
        }
        for (_, extra) in &case.extras {
            *self.extras.entry(extra.name()).or_default() += 1;
        }
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
        writeln!(f, "{} trials, {} operations", self.trials, self.operations)?;
        let (all, in_vain) = self.short;
        writeln!(
            f,
            "{all} decisions with a short wait, {in_vain} of them in vain"
        )?;
        writeln!(f, "limits:")?;
        for (limit, count) in &self.limits {
            writeln!(f, "  {count:>7} {limit}")?;
        }
        writeln!(f, "with:")?;
        for (extra, count) in &self.extras {
            writeln!(f, "  {count:>7} {extra}")?;
        }
        writeln!(f, "faults:")?;
        for (fault, count) in &self.faults {
            writeln!(f, "  {count:>7} {fault}")?;
        }
        writeln!(f, "pairs of faults: {} kinds", self.pairs.len())?;
        for ((one, other), count) in &self.pairs {
            writeln!(f, "  {count:>7} {one}, {other}")?;
        }
        writeln!(f, "findings: {}", self.findings.len())?;
        for (promise, (count, seeds)) in &self.findings {
            writeln!(f, "  {count:>7} {promise}: seeds {seeds:?}")?;
        }
        Ok(())
    }
}

/// A finding in one line: the promise, the limit, and what went wrong.
pub(crate) fn line(case: &Case, breach: &Breach) -> String {
    let limit = &case.limits[breach.limit];
    let mut traits = vec![format!("{:?}", limit.kind), limit.mode.word().to_owned()];
    traits.extend((!case.theme.is_empty()).then(|| case.theme.to_owned()));
    traits.extend((limit.plans.len() > 1).then(|| format!("{} plans", limit.plans.len())));
    traits.extend(limit.reserves.map(|_| "reserves".to_owned()));
    traits.extend(case.extras.iter().map(|(_, extra)| extra.name().to_owned()));
    let faults = faults(case);
    format!(
        "trial {}: {breach} ({}; faults: {})",
        case.name,
        traits.join(", "),
        faults.join(", ")
    )
}

/// The names of all faults in a trial.
fn faults(case: &Case) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = case.faults.iter().map(|fault| fault.what.name()).collect();
    names.extend(case.away.map(|_| "away at the start"));
    names.sort_unstable();
    names
}

/// A finding, with the history around it.
pub(crate) fn finding(case: &Case, history: &History, broken: &[Breach]) -> String {
    let mut text = format!("trial {}\n", case.name);
    for breach in broken.iter().take(4) {
        text += &format!("  {breach}\n");
    }
    let kind = match (case.in_memory, case.in_cluster) {
        (true, _) => "memory",
        (_, true) => "cluster",
        _ => "Redis",
    };
    text += &format!(
        "{kind}, {} gateways, heartbeat {:?}, remembers {}\n",
        case.gateways, case.heartbeat, case.remembers
    );
    for (nth, limit) in case.limits.iter().enumerate() {
        if !case.name.limits.contains(&nth) {
            text += &format!("  limit {nth}: {limit:?}\n");
        }
    }
    for (nth, extra) in &case.extras {
        text += &format!("  extra {nth}: {extra:?}\n");
    }
    for work in &case.work {
        text += &format!("  {}\n", work.title());
    }
    for fault in &case.faults {
        text += &format!(
            "  fault {} at {} ms, gateway {}: {:?}\n",
            fault.nth, fault.at, fault.gateway, fault.what
        );
    }
    if let Some(breach) = broken.first() {
        text += &around(history, breach);
    }
    text
}

fn around(history: &History, breach: &Breach) -> String {
    let first = history
        .requests
        .iter()
        .map(|request| request.asked.begin)
        .min();
    let zero = first.unwrap_or(0);
    let limit = history.limits.get(breach.limit);
    let block = limit.and_then(|limit| limit.block);
    let before = AROUND + block.map_or(0, |block| block.span);
    let (begin, end) = (
        breach.span.begin.saturating_sub(before),
        breach.span.end + AROUND,
    );
    let mut lines: Vec<(Micros, String)> = Vec::new();
    let since = |at: Micros| (at as i64 - zero as i64) as f64 / 1_000.0;
    for request in &history.requests {
        let concerns = request.charges.iter().any(|charge| {
            charge.limit == breach.limit && (breach.key.is_none_or(|key| key == charge.key))
        });
        let until = request.ran_until.unwrap_or(request.asked.end);
        // All requests are shown for `kept`, because each affects what is left in the end.
        let matters = breach.promise == "kept" || request.asked.begin <= end && until >= begin;
        if concerns && matters {
            lines.push((request.asked.begin, of_request(request, breach, since)));
        }
    }
    let mut errors: BTreeMap<Option<usize>, (Micros, Micros, usize)> = BTreeMap::new();
    for trouble in &history.troubles {
        if trouble.kind == "error" {
            // A gateway may have hundreds of errors.
            let all = errors.entry(trouble.gateway).or_insert((Micros::MAX, 0, 0));
            *all = (
                all.0.min(trouble.span.begin),
                all.1.max(trouble.span.end),
                all.2 + 1,
            );
            continue;
        }
        let line = format!(
            "trouble: {} of {:?} until {:.1}",
            trouble.kind,
            trouble.gateway,
            since(trouble.span.end)
        );
        lines.push((trouble.span.begin, line));
    }
    for (gateway, (begin, end, count)) in errors {
        let line = format!("{count} errors of {gateway:?} until {:.1}", since(end));
        lines.push((begin, line));
    }
    for reset in history
        .resets
        .iter()
        .filter(|reset| reset.limit == breach.limit)
    {
        let line = format!(
            "reset of key {} until {:.1}, done {}",
            reset.key,
            since(reset.span.end),
            reset.done
        );
        lines.push((reset.span.begin, line));
    }
    for loss in &history.losses {
        lines.push((
            loss.span.begin,
            format!(
                "data lost until {:.1}, all of it: {}",
                since(loss.span.end),
                loss.is_whole
            ),
        ));
    }
    for end in &history.ends {
        lines.push((
            end.at,
            format!("gateway {} ends, in order {}", end.gateway, end.in_order),
        ));
    }
    lines.sort_by_key(|(at, _)| *at);
    let left_out = lines.len().saturating_sub(LINES);
    let mut text = format!("history, times in ms ({left_out} lines left out):\n");
    for (at, line) in lines.into_iter().skip(left_out) {
        text += &format!("  {:9.1} {line}\n", since(at));
    }
    text
}

fn of_request(request: &Request, breach: &Breach, since: impl Fn(Micros) -> f64 + Copy) -> String {
    let said = match &request.said {
        Said::Aborted => "aborted".to_owned(),
        Said::Decided {
            outcome,
            via,
            error,
        } => {
            let error = error
                .as_ref()
                .map_or(String::new(), |error| format!(" ({error})"));
            format!("{outcome:?} via {via:?}{error}")
        }
    };
    let charges = request
        .charges
        .iter()
        .filter(|charge| charge.limit == breach.limit);
    let charges: Vec<String> = charges
        .map(|charge| {
            let verdict = charge
                .verdict
                .map(|verdict| (verdict.allowed, verdict.remaining, verdict.retry_after));
            let share = charge.share.map_or(String::new(), |(member, verdict)| {
                let verdict = verdict.map(|it| (it.allowed, it.remaining, it.retry_after));
                format!(
                    ", member {} of weight {} {verdict:?}",
                    member.name, member.weight
                )
            });
            format!(
                "key {} cost {} of {} at {:.3}-{:.3} here {} {verdict:?} used {:?}{share}",
                charge.key,
                charge.cost,
                charge.numbers.limit,
                since(charge.at.begin),
                since(charge.at.end),
                charge.here,
                charge.used
            )
        })
        .collect();
    let within = request.within;
    let within = within.map_or(String::new(), |wait| format!(" within {wait} us"));
    let until = request.ran_until.map(since);
    let settled = request.settled.map(since);
    format!(
        "gateway {}: {said}{within}; {}; until {until:?}, settled {settled:?}",
        request.gateway,
        charges.join("; ")
    )
}
