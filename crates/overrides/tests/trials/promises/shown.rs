//! Each override that a gateway shows, or none, follows from the changes that it has read or must have read.

use std::collections::HashMap;

use tidegate_core::Micros;

use super::known::Known;
use super::{Breach, CLOCK, ENDS, REFUSED, SET, versions};
use crate::case::Ends;
use crate::history::{Answer, Change, Entry, FOREVER, History, Look, Span};

/// The longest time from an answer of Redis until requests meet the overrides that follow from it: that of one more call.
const APPLYING: Micros = 200_000;

/// The changes of one name, and what is known of them.
struct Name<'a> {
    history: &'a History,
    changes: Vec<&'a Change>,
    versions: HashMap<u64, u64>,
    ends: HashMap<u64, Option<Micros>>,
}

/// A gateway that shows an override, or none.
struct Shown {
    gateway: usize,
    span: Span,
    entry: Option<Entry>,
    /// When Redis gave the answer from which this follows; from then on the estimate of Redis's clock may be old.
    heard: Micros,
}

pub(super) fn broken(history: &History, subject: usize) -> Vec<Breach> {
    let name = Name::of(history, subject);
    let known = Known::of(history, subject);
    let read: Vec<Vec<Option<Micros>>> = (name.changes.iter())
        .map(|change| {
            let gateways = history.lives.iter().map(|life| life.gateway + 1).max();
            (0..gateways.unwrap_or(0))
                .map(|gateway| known.read_at(gateway, change))
                .collect()
        })
        .collect();
    let mut shown: Vec<Shown> = known
        .looks()
        .map(|look| Shown::of(look, &known, subject))
        .collect();
    shown.extend(
        name.changes
            .iter()
            .filter_map(|change| Shown::answered(change)),
    );
    let mut broken = Vec::new();
    for shown in shown {
        let at = shown.span.begin;
        let must_know = |nth: usize| {
            let own = read[nth].get(shown.gateway).copied().flatten();
            own.is_some_and(|read| read <= at)
                || known.must_be_read(shown.gateway, name.changes[nth], at)
        };
        let must_know: Vec<usize> = (0..name.changes.len())
            .filter(|nth| must_know(*nth))
            .collect();
        let own = |change: &Change| {
            let nth = name.changes.iter().position(|it| it.id == change.id);
            let read = nth.and_then(|nth| *read[nth].get(shown.gateway)?);
            read.is_some_and(|read| read <= at)
        };
        let must_know: Vec<&Change> = must_know.iter().map(|nth| name.changes[*nth]).collect();
        if let Some((promise, text)) = name.breach(&shown, &must_know, own) {
            let Shown { gateway, entry, .. } = shown;
            let entry = match entry {
                Some(entry) => format!("the override of change {}", entry.change),
                None => "none".to_owned(),
            };
            broken.push(Breach {
                promise,
                subject,
                at,
                text: format!("gateway {gateway} shows {entry}: {text}"),
            });
        }
    }
    broken.sort_by_key(|breach| breach.at);
    // One place of each promise is enough.
    let mut first = Vec::new();
    for breach in broken {
        if !first.iter().any(|it: &Breach| it.promise == breach.promise) {
            first.push(breach);
        }
    }
    first
}

impl Shown {
    fn of(look: &Look, known: &Known<'_>, subject: usize) -> Self {
        Self {
            gateway: look.gateway,
            span: look.span,
            entry: look.enforced[subject],
            heard: known.heard(look.gateway, look.span.begin.saturating_sub(APPLYING)),
        }
    }

    /// The override that an answer names as the one before.
    fn answered(change: &Change) -> Option<Self> {
        Some(Self {
            gateway: change.gateway,
            span: change.span,
            entry: change.answer.before()?,
            heard: change.span.begin,
        })
    }
}

impl<'a> Name<'a> {
    fn of(history: &'a History, subject: usize) -> Self {
        let changes = history.changes.iter();
        let changes = changes.filter(|it| it.subject == subject && it.may_be_made());
        let mut ends = HashMap::new();
        for change in &history.changes {
            if let Answer::Set { ends: its, .. } = change.answer {
                ends.insert(change.id, its);
            }
        }
        for entry in history.looks.iter().flat_map(|look| look.enforced.iter()) {
            let entry = entry.iter();
            ends.extend(entry.map(|entry| (entry.change, entry.ends)));
        }
        Self {
            history,
            changes: changes.collect(),
            versions: versions::of(history),
            ends,
        }
    }

    /// Whether one change is surely newer than another.
    fn is_newer(&self, newer: &Change, older: &Change) -> bool {
        let version = |change: &Change| self.versions.get(&change.id);
        match (version(newer), version(older)) {
            (Some(newer), Some(older)) => newer > older,
            _ => newer.span.begin > self.end(older) && !self.may_be_behind(),
        }
    }

    /// Returns the latest time at which a change was made. A clock that is set back gives a refused one more time.
    fn end(&self, change: &Change) -> Micros {
        match change.answer {
            Answer::Failed(_) if self.history.has_step_back() => FOREVER,
            _ => change.span.end,
        }
    }

    /// Whether a later change can have an older version: of a server that is behind in data and by its clock.
    fn may_be_behind(&self) -> bool {
        self.history.has_step_back() && !self.history.losses.is_empty()
    }

    /// The times that a gateway may take for Redis's.
    fn clock(&self, shown: &Shown) -> Span {
        let begin = shown.heard.min(shown.span.begin);
        let ahead = Span {
            begin: begin.saturating_sub(self.history.bounds.clock),
            end: shown.span.end,
        };
        let ahead = self.history.ahead(ahead);
        let least = ahead.iter().min().copied().unwrap_or(0);
        let most = ahead.iter().max().copied().unwrap_or(0);
        let slack = self.history.bounds.clock;
        Span {
            begin: shown.span.begin.saturating_add_signed(least) - slack,
            end: shown.span.end.saturating_add_signed(most) + slack,
        }
    }

    /// Whether the override of a change may have ended, or was cleared.
    fn may_be_over(&self, change: &Change, clock: Span) -> bool {
        let Some(ends) = change.sets else { return true };
        let known = self.ends.get(&change.id).copied();
        let ends = known.unwrap_or_else(|| match ends {
            Ends::Never => None,
            Ends::At(at) => Some(at),
            Ends::After(time) => {
                let span = Span {
                    begin: change.span.begin,
                    end: self.end(change),
                };
                Some(self.history.redis_time(span).begin + time * 1_000)
            }
        });
        ends.is_some_and(|ends| ends <= clock.end)
    }

    /// Returns the promise that a gateway breaks, by the changes that it must know. `own`: whether it has read one itself.
    fn breach(
        &self,
        shown: &Shown,
        must_know: &[&Change],
        own: impl Fn(&Change) -> bool,
    ) -> Option<(&'static str, String)> {
        let clock = self.clock(shown);
        let newer_than = |change: &Change| {
            let newer = must_know.iter().filter(|it| self.is_newer(it, change));
            newer.max_by_key(|it| it.span.begin).copied()
        };
        let Some(entry) = shown.entry else {
            return self.breach_of_none(shown, must_know, clock);
        };
        let has_ended = entry.ends.is_some_and(|ends| ends <= clock.begin);
        if has_ended && self.history.has_just_run_again(shown.gateway, shown.span) {
            return None;
        }
        if has_ended {
            return Some((CLOCK.name, "it has ended".to_owned()));
        }
        let Some(change) = self.changes.iter().find(|it| it.id == entry.change) else {
            let text = "no change that may have been made has set it".to_owned();
            return Some((SET.name, text));
        };
        let newer = newer_than(change)?;
        let is_refused = matches!(change.answer, Answer::Failed(_));
        let is_back = own(newer) || self.may_be_over(newer, clock);
        let promise = match () {
            () if is_refused && !own(newer) && self.end(change) < newer.span.begin => REFUSED.name,
            () if is_back => ENDS.name,
            () => SET.name,
        };
        Some((promise, format!("change {} is newer", newer.id)))
    }

    fn breach_of_none(
        &self,
        shown: &Shown,
        must_know: &[&Change],
        clock: Span,
    ) -> Option<(&'static str, String)> {
        let may_be = |change: &Change| {
            change.span.begin <= shown.span.end && self.may_be_over(change, clock)
        };
        let is_old = |change: &Change| must_know.iter().any(|it| self.is_newer(it, change));
        let mut changes = self.changes.iter();
        if must_know.is_empty() || changes.any(|change| may_be(change) && !is_old(change)) {
            return None;
        }
        let best = must_know
            .iter()
            .find(|it| !is_old(it))
            .or(must_know.first())?;
        let late = |change: &&&Change| {
            let is_refused = matches!(change.answer, Answer::Failed(_));
            is_refused && may_be(change)
        };
        let promise = match () {
            () if self.changes.iter().any(|it| late(&it)) => REFUSED.name,
            () if !self.history.steps.is_empty() && best.sets != Some(Ends::Never) => CLOCK.name,
            () => SET.name,
        };
        Some((promise, format!("change {} is in force", best.id)))
    }
}
