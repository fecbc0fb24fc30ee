//! The used units of a key at a time. The lower bound has all charges that were surely made, the upper bound all that may have been made.

use tidegate_core::Micros;
use tidegate_store::{Mode, Outcome};

use super::arrival::{GRACE, crash, latest, may_be_missed, surely_done};
use super::at_most::SLICE;
use super::budget::{Budget, budget};
use crate::history::{Charge, History, Request, Said, Span};
use crate::law::{Kind, Numbers};

/// A question about the used units of a key.
pub(super) struct Question<'a> {
    pub(super) limit: usize,
    pub(super) key: u64,
    /// The time in question, as far as it is known.
    pub(super) at: Span,
    /// The numbers of the request in question.
    pub(super) numbers: Numbers,
    /// A request that does not count.
    pub(super) but: Option<&'a Request>,
    /// The longest time for which a decision may lack resets and settlements.
    pub(super) age: Micros,
    /// Whether all requests have settled.
    pub(super) is_over: bool,
    /// Only charges that were surely made before this time count. `None`: all charges.
    pub(super) before: Option<Micros>,
    /// Only charges of this budget count.
    pub(super) budget: Budget,
    /// Only charges by this gateway count. `None`: charges by all gateways.
    pub(super) gateway: Option<usize>,
    /// Whether the lent units are known. A killed gateway may have spent these units of a leased limit, and no more.
    pub(super) is_lent_known: bool,
}

impl<'a> Question<'a> {
    /// Asks for the used units of the shared budget at this time.
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

    /// Whether a charge counts.
    fn includes(&self, request: &Request, charge: &Charge) -> bool {
        self.but.is_none_or(|but| !std::ptr::eq(but, request))
            && self
                .gateway
                .is_none_or(|gateway| gateway == request.gateway)
            && self.before.is_none_or(|before| charge.at.end < before)
    }
}

/// Used units, as bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) least: f64,
    pub(super) most: f64,
}

/// The time after which a hold of a request over several slots lapses, if its end is lost.
const LAPSE: Micros = 10_000_000;

/// A time after all trials.
const NEVER: Micros = 1 << 60;

/// A charge, as far as it is known.
struct Part {
    at: Span,
    least: u64,
    most: u64,
    /// The latest time at which it was charged, if it was held before.
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
            // The counter rounds time to whole milliseconds, in favour of the limit.
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

/// All charges that were or may have been made before the time in question, and were not lost.
fn parts(history: &History, question: &Question<'_>) -> Vec<Part> {
    let Question { limit, key, at, .. } = *question;
    let known = &history.limits[limit];
    let forgotten = history.forgotten(limit, key);
    let surely = history.surely_forgotten(limit, key);
    let is_forgotten = |time: Micros| {
        // After a reset, slices stay lent, and gateways send counts that they had not sent before.
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
                    // The reset also clears the units that a gateway counts until it receives the reset.
                    Mode::Synced => surely_done(history, request.gateway, span.end),
                    _ => Some(span.end),
                };
                known.is_none_or(|known| known > charge.at.begin)
            });
        // Counts that a killed gateway has not sent are lost, or are charged when its slice lapses.
        let crashed = crash(history, request.gateway).is_some();
        let loses = match known.mode {
            Mode::Synced => crashed || is_gone,
            Mode::Leased => crashed && !(question.is_lent_known && has_record(history, charge)),
            _ => false,
        };
        // A charge in Redis without an answer is never settled.
        let (least, most) = match sure {
            true => weights(history, question, request, charge),
            false => (0, charge.cost),
        };
        let least = if sure && is_before && !is_gone && !loses {
            least
        } else {
            0
        };
        // The real cost of a request is charged even after a reset.
        let settled = request
            .settled
            .map(|at| latest(history, request.gateway, at));
        let is_missed = request
            .settled
            .is_some_and(|at| may_be_missed(history, request.gateway, at));
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
                // A lapsed hold is charged by the next access to the key. Without its end, a hold lapses.
                true => Some(settled.filter(|_| !is_missed).unwrap_or(NEVER)),
                false if history.is_split(request) => Some(span.end + LAPSE),
                // The units are held until all limits of the request have decided.
                false if charge.here && request.charges.len() > 1 => Some(request.asked.end),
                false => None,
            },
        })
    });
    parts.collect()
}

/// Whether Redis has a record of the slice that a charge was spent from. A slice lent before a loss of data has no record until its gateway
/// calls.
fn has_record(history: &History, charge: &Charge) -> bool {
    let mut losses = history.losses.iter();
    !losses.any(|loss| {
        loss.span
            .meets(charge.at.begin.saturating_sub(SLICE), charge.at.end)
    })
}

/// Whether Redis may have made a charge although the request was not admitted.
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
    // Over several slots, a request may hold units in one slot while another refuses. A lost end, for example while a slot moves, is not
    // sent again.
    let mut troubles = history.troubles_of(request.gateway);
    let is_sure = !troubles.any(|it| it.meets(request.asked.begin, request.asked.end + GRACE));
    let is_past = question.is_over || request.asked.end + GRACE < question.at.begin;
    let is_back = is_sure && is_past;
    if is_refused && history.is_split(request) && !is_back {
        return true;
    }
    // The gateway first reserves units of the limits that it counts itself. Units that Redis lent for it stay lent if another limit
    // refuses.
    let is_reserved = is_refused && mode != Mode::Exact && request.charges.len() > 1;
    let is_either = matches!(budget(history, request, charge), Some(Budget::Either(_)));
    // A synced limit counts the requests that `on_failure` admits, and sends the count when Redis is back.
    let is_open = mode == Mode::Synced && request.is_admitted() && charge.verdict.is_none();
    // The gateway ends the holds of a decision that it gives up, with the cost 0.
    let takes_holds = mode == Mode::Exact && history.limits[charge.limit].reserves;
    let is_given_back = takes_holds && is_given_back(history, request, question);
    request.is_unanswered() && !is_given_back || is_reserved || is_either || is_open
}

/// Whether a decision with a short wait was given up, and the end of its holds surely arrived.
fn is_given_back(history: &History, request: &Request, question: &Question<'_>) -> bool {
    if !request.is_impatient() {
        return false;
    }
    let ended = latest(history, request.gateway, request.asked.end);
    let troubles = history.troubles.iter();
    let own = troubles.filter(|it| it.gateway.is_none_or(|of| of == request.gateway));
    let mut losing = own.filter(|it| it.may_lose_calls());
    let is_lost = losing.any(|it| it.span.meets(request.asked.begin, ended));
    !is_lost && (question.is_over || ended < question.at.begin)
}

/// The span in which a request may have been charged.
fn late(request: &Request) -> Span {
    Span {
        begin: request.asked.begin,
        end: request.asked.end.max(request.given_up),
    }
}

/// The least and the most units for which a charge counts.
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
        // The real cost may not have been known at that time.
        return (cost.min(used), cost.max(used));
    }
    // Until the answer names the cost, all reserved units are held. A hold that lapses is charged with them.
    if question.at.end < at {
        return (cost, cost);
    }
    let known = &history.limits[question.limit];
    let is_done = surely_done(history, request.gateway, at)
        .is_some_and(|done| done + question.age <= question.at.begin);
    let is_quiet = known.window > 60_000_000;
    // A hold that lapses by a step of the clock is charged with its reserved units.
    let mut steps = history.steps.iter().map(|step| step.span);
    let until = surely_done(history, request.gateway, at).unwrap_or(at);
    let has_lapsed = known.reserves && steps.any(|it| it.meets(request.asked.begin, until));
    if may_be_missed(history, request.gateway, at) || has_lapsed {
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

/// The least or the most debt of a bucket.
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
    // Since the last charge, the debt is paid off at the rate of the question.
    let (now, rate) = if least {
        (question.at.end, rate)
    } else {
        (question.at.begin, question.numbers)
    };
    (owed - rate.paid(now.saturating_sub(since))).max(0.0)
}

/// The most places that may be taken.
fn places(history: &History, question: &Question<'_>, lease: Micros) -> f64 {
    let at = question.at;
    // If the clock was stepped meanwhile, a request may have ended after the step.
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
        // A request without an answer may have been charged as soon as it was sent.
        let begin = if is_its {
            charge.at.begin
        } else {
            request.asked.begin
        };
        let is_split = history.is_split(request) && request.asked.end + GRACE >= at.begin;
        if !is_its && !request.is_unanswered() && !is_split || begin > at.end {
            return None;
        }
        // When Redis is back, it counts requests that still run since an outage.
        let holds = is_its || request.is_admitted();
        let until = match request.ran_until.filter(|_| holds).map(ended) {
            None if holds => Micros::MAX,
            None => late(request).end + lease,
            Some(end) => match surely_done(history, request.gateway, end) {
                Some(_) if may_be_missed(history, request.gateway, end) => end + lease + GRACE,
                Some(done) => done.min(end + lease + GRACE),
                None => crash(history, request.gateway).unwrap_or(end).max(end) + lease,
            },
        };
        (until >= at.begin).then_some(charge.cost)
    });
    taken.sum::<u64>() as f64
}
