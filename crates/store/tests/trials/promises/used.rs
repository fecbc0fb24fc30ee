//! What is used of a key at a time. At least this is all that surely was charged, and at most all that may have been.

use tidegate_core::Micros;
use tidegate_store::{Mode, Outcome};

use super::arrival::{GRACE, crash, latest, surely_done};
use super::at_most::SLICE;
use super::budget::{Budget, budget};
use crate::history::{Charge, History, Request, Said, Span};
use crate::law::{Kind, Numbers};

/// What is asked about a key.
pub(super) struct Question<'a> {
    pub(super) limit: usize,
    pub(super) key: u64,
    /// When, as far as is known.
    pub(super) at: Span,
    /// By whose numbers.
    pub(super) numbers: Numbers,
    /// A request that is no part of it.
    pub(super) but: Option<&'a Request>,
    /// How old the answer may be to what gives back.
    pub(super) age: Micros,
    /// Whether all has settled.
    pub(super) is_over: bool,
    /// Only what was surely charged before this time; none: whatever may be charged.
    pub(super) before: Option<Micros>,
    /// Of this budget.
    pub(super) budget: Budget,
    /// By this gateway; none: by all.
    pub(super) gateway: Option<usize>,
    /// Whether what is lent is known, which is all that a gateway that was killed may have spent of a leased limit.
    pub(super) is_lent_known: bool,
}

impl<'a> Question<'a> {
    /// What is used of the budget that all share, at this time.
    pub(super) const fn new(limit: usize, key: u64, at: Span, numbers: Numbers) -> Self {
        Self {
            limit,
            key,
            at,
            numbers,
            but: None,
            age: 0,
            is_over: false,
            before: None,
            budget: Budget::Shared,
            gateway: None,
            is_lent_known: false,
        }
    }

    /// Whether a request is a part of it.
    fn includes(&self, request: &Request, charge: &Charge) -> bool {
        self.but.is_none_or(|but| !std::ptr::eq(but, request))
            && self
                .gateway
                .is_none_or(|gateway| gateway == request.gateway)
            && self.before.is_none_or(|before| charge.at.end < before)
    }
}

/// What is used, in units.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) least: f64,
    pub(super) most: f64,
}

/// What a request over several slots holds lapses after so long, if its end is lost.
const LAPSE: Micros = 10_000_000;

/// A time after all trials.
const NEVER: Micros = 1 << 60;

/// A charge as far as it is known.
struct Part {
    at: Span,
    least: u64,
    most: u64,
    /// When it was charged at the latest, if it was held before.
    late: Option<Micros>,
}

pub(super) fn used(history: &History, question: &Question<'_>) -> Used {
    let known = &history.limits[question.limit];
    if known.kind == Kind::Concurrency {
        let most = places(history, question, known.window);
        return Used { least: 0.0, most };
    }
    let mut parts = parts(history, question);
    let at = question.at;
    let window = known.window;
    let start = |time: Micros| time - time % window;
    match known.kind {
        Kind::TokenBucket | Kind::LeakyBucket => Used {
            least: debt(history, question, &mut parts, true),
            most: debt(history, question, &mut parts, false),
        },
        Kind::FixedWindow | Kind::Calendar => Used {
            least: sum(&parts, |part| {
                (part.at.begin >= start(at.end)).then_some(part.least)
            }),
            most: sum(&parts, |part| {
                (part.last() >= start(at.begin)).then_some(part.most)
            }),
        },
        Kind::Log => Used {
            least: sum(&parts, |part| {
                (part.at.begin + window > at.end).then_some(part.least)
            }),
            most: sum(&parts, |part| {
                (part.last() + window >= at.begin).then_some(part.most)
            }),
        },
        Kind::Counter => {
            let part_of = |time: Micros| (start(time) + window - time) as f64 / window as f64;
            let (early, late) = (start(at.begin), start(at.end));
            let least = sum(&parts, |part| (part.at.begin >= late).then_some(part.least));
            let previous = sum(&parts, |part| {
                let is_its = part.at.begin >= late - window && part.at.end < late;
                is_its.then_some(part.least)
            });
            let most = sum(&parts, |part| (part.last() >= early).then_some(part.most));
            let most_previous = sum(&parts, |part| {
                let is_its = part.last() + window >= early && part.at.begin < early;
                is_its.then_some(part.most)
            });
            // Time counts in whole milliseconds, in favour of the limit.
            let rest = part_of(at.begin) + 1_000.0 / window as f64;
            Used {
                least: least + (previous * part_of(at.end)).floor(),
                most: most + (most_previous * rest.min(1.0)).ceil(),
            }
        }
        Kind::Concurrency => Used::default(),
    }
}

impl Part {
    fn last(&self) -> Micros {
        self.late.unwrap_or(0).max(self.at.end)
    }
}

fn sum(parts: &[Part], of: impl Fn(&Part) -> Option<u64>) -> f64 {
    parts.iter().filter_map(of).sum::<u64>() as f64
}

/// All that was, or may have been, charged before the time in question, and was not forgotten.
fn parts(history: &History, question: &Question<'_>) -> Vec<Part> {
    let Question { limit, key, at, .. } = *question;
    let known = &history.limits[limit];
    let forgotten = history.forgotten(limit, key);
    let surely = history.surely_forgotten(limit, key);
    let is_forgotten = |time: Micros| {
        // Slices stay lent, and what is only known to a gateway is told after a reset.
        let keeps = matches!(known.mode, Mode::Leased | Mode::Synced);
        let done = surely.iter();
        let mut done = done.filter(|span| span.end + question.age < at.begin);
        !keeps && done.any(|span| span.begin > time)
    };
    let charges = history.of(limit, key);
    let charges = charges.filter(|(request, charge)| question.includes(request, charge));
    let parts = charges.filter_map(|(request, charge)| {
        let sure = budget(history, request, charge) == Some(question.budget);
        if !sure && !may_be_charged(history, request, charge, question) {
            return None;
        }
        let span = if sure { charge.at } else { late(request) };
        let is_before = span.end <= at.begin;
        let is_gone = forgotten
            .iter()
            .filter(|span| span.begin <= at.end)
            .any(|span| {
                let known = match known.mode {
                    // What a gateway counts until it hears of a reset is forgotten with the rest.
                    Mode::Synced => surely_done(history, request.gateway, span.end),
                    _ => Some(span.end),
                };
                known.is_none_or(|known| known > charge.at.begin)
            });
        // What a gateway has not told goes with it, or is seen when its slice lapses.
        let crashed = crash(history, request.gateway).is_some();
        let loses = match known.mode {
            Mode::Synced => crashed || is_gone,
            Mode::Leased => crashed && !(question.is_lent_known && has_record(history, charge)),
            _ => false,
        };
        // What Redis charged without an answer nobody settles.
        let (least, most) = match sure {
            true => weights(history, question, request, charge),
            false => (0, charge.cost),
        };
        let least = if sure && is_before && !is_gone && !loses {
            least
        } else {
            0
        };
        // What a request comes to is charged after a reset as well.
        let settled = request
            .settled
            .map(|at| latest(history, request.gateway, at));
        let last = settled.unwrap_or(0).max(span.end);
        let most = if span.begin <= at.end && !is_forgotten(last) {
            most
        } else {
            0
        };
        Some(Part {
            at: span,
            least,
            most,
            late: match known.reserves {
                // A hold that lapses is charged by the next look.
                true => Some(settled.unwrap_or(NEVER)),
                false if history.is_split(request) => Some(span.end + LAPSE),
                // It is held until all limits of the request are decided.
                false if charge.here && request.charges.len() > 1 => Some(request.asked.end),
                false => None,
            },
        })
    });
    parts.collect()
}

/// Whether Redis has a record of the slice that a charge was spent from. A slice that was lent before a loss has none until its
/// gateway calls.
fn has_record(history: &History, charge: &Charge) -> bool {
    let mut losses = history.losses.iter();
    !losses.any(|loss| {
        loss.span
            .meets(charge.at.begin.saturating_sub(SLICE), charge.at.end)
    })
}

/// Whether Redis may have charged it though nobody was let through.
fn may_be_charged(
    history: &History,
    request: &Request,
    charge: &Charge,
    question: &Question<'_>,
) -> bool {
    let mode = history.limits[charge.limit].mode;
    if history.in_memory || mode == Mode::Local {
        return request.said == Said::Aborted;
    }
    let is_refused = matches!(
        request.said,
        Said::Decided {
            outcome: Outcome::Refused | Outcome::Unavailable,
            ..
        }
    );
    // Over several slots it may hold units at one while another refuses. An end that is lost, as while a slot moves, is not sent again.
    let mut troubles = history.troubles_of(request.gateway);
    let is_sure = !troubles.any(|it| it.meets(request.asked.begin, request.asked.end + GRACE));
    let is_past = question.is_over || request.asked.end + GRACE < question.at.begin;
    let is_back = is_sure && is_past;
    if is_refused && history.is_split(request) && !is_back {
        return true;
    }
    // What is kept here is reserved first. What Redis charged to lend a slice stays charged when another limit refuses.
    let is_reserved = is_refused && mode != Mode::Exact && request.charges.len() > 1;
    let is_either = matches!(budget(history, request, charge), Some(Budget::Either(_)));
    // A synced limit counts what its `on_failure` let through, and tells it when Redis is back.
    let is_open = mode == Mode::Synced && request.is_admitted() && charge.verdict.is_none();
    request.is_unanswered() || is_reserved || is_either || is_open
}

/// When it may have been charged.
fn late(request: &Request) -> Span {
    Span {
        begin: request.asked.begin,
        end: request.asked.end.max(request.given_up),
    }
}

/// What a charge counts for, at least and at most.
fn weights(
    history: &History,
    question: &Question<'_>,
    request: &Request,
    charge: &Charge,
) -> (u64, u64) {
    let cost = charge.cost;
    let (Some(at), Some(used)) = (request.settled, charge.used) else {
        return (cost, cost);
    };
    if question.before.is_some() {
        // What comes later was not known then.
        return (cost.min(used), cost.max(used));
    }
    let known = &history.limits[question.limit];
    let is_done = surely_done(history, request.gateway, at)
        .is_some_and(|done| done + question.age <= question.at.begin);
    let is_quiet = known.window > 60_000_000;
    // A replica that took over may have missed what was given back, or charged more.
    let until = surely_done(history, request.gateway, at).unwrap_or(at);
    let is_lost = history.may_be_lost(Span {
        begin: at,
        end: until,
    });
    // A hold that lapses by a step of the clock is charged as reserved.
    let mut steps = history.steps.iter().map(|step| step.span);
    let has_lapsed = known.reserves && steps.any(|it| it.meets(request.asked.begin, until));
    if is_lost || has_lapsed {
        return (cost.min(used), cost.max(used));
    }
    if (question.is_over || is_done) && is_quiet && crash(history, request.gateway).is_none() {
        return (used, used);
    }
    if is_done && !known.kind.is_bucket() {
        return (cost.min(used), used);
    }
    (cost.min(used), cost.max(used))
}

/// What is owed: at least, or at most.
fn debt(history: &History, question: &Question<'_>, parts: &mut [Part], least: bool) -> f64 {
    let asked = history.of(question.limit, question.key);
    let all = asked
        .map(|(_, charge)| charge.numbers)
        .chain([question.numbers]);
    let rate = all.reduce(|one, other| match (least, one.is_slower(&other)) {
        (true, true) | (false, false) => other,
        _ => one,
    });
    let rate = rate.unwrap_or(question.numbers);
    let time = |part: &Part| {
        if least {
            part.at.begin
        } else {
            part.last().min(question.at.begin)
        }
    };
    parts.sort_by_key(time);
    let (mut owed, mut since) = (0.0_f64, 0);
    for part in parts
        .iter()
        .filter(|part| if least { part.least > 0 } else { part.most > 0 })
    {
        let now = time(part).max(since);
        owed = (owed - rate.paid(now - since)).max(0.0);
        owed += if least { part.least } else { part.most } as f64;
        since = now;
    }
    // Since it was written last it is paid off as whoever asks pays.
    let (now, rate) = if least {
        (question.at.end, rate)
    } else {
        (question.at.begin, question.numbers)
    };
    (owed - rate.paid(now.saturating_sub(since))).max(0.0)
}

/// The places that may be taken.
fn places(history: &History, question: &Question<'_>, lease: Micros) -> f64 {
    let at = question.at;
    // Where the clock was stepped meanwhile, a request may have ended after the step.
    let ended = |time: Micros| {
        let steps = history.steps.iter().map(|step| step.span);
        let steps = steps.filter(|span| span.meets(time, time));
        steps.map(|span| span.end).fold(time, Micros::max)
    };
    let charges = history.of(question.limit, question.key);
    let charges = charges.filter(|(request, charge)| question.includes(request, charge));
    let taken = charges.filter_map(|(request, charge)| {
        let is_its = matches!(
            budget(history, request, charge),
            Some(Budget::Shared | Budget::Either(_))
        );
        // One that was not answered may have been charged as soon as it was asked.
        let begin = if is_its {
            charge.at.begin
        } else {
            request.asked.begin
        };
        let is_split = history.is_split(request) && request.asked.end + GRACE >= at.begin;
        if !is_its && !request.is_unanswered() && !is_split || begin > at.end {
            return None;
        }
        // What runs since an outage is counted by Redis when it is back.
        let holds = is_its || request.is_admitted();
        let until = match request.ran_until.filter(|_| holds).map(ended) {
            None if holds => Micros::MAX,
            None => late(request).end + lease,
            Some(end) => match surely_done(history, request.gateway, end) {
                Some(done) => done.min(end + lease + GRACE),
                None => crash(history, request.gateway).unwrap_or(end).max(end) + lease,
            },
        };
        (until >= at.begin).then_some(charge.cost)
    });
    taken.sum::<u64>() as f64
}
