//! Shares of members in a shared limit: when they refuse, and whom.

use tidegate_core::Micros;
use tidegate_store::{Mode, Via};

use super::budget::{Budget, budget};
use super::refusal::{decided, source};
use super::used::{Question, Used, used};
use super::{Breach, Promise};
use crate::case::Member;
use crate::history::{Charge, History, Limit, Request};
use crate::law::{Kind, Numbers};

pub(super) const IDLE: Promise = Promise {
    name: "share_idle",
    words: "A share refuses a request only while less than half of its limit is left.",
    check: |history| {
        let refusals = refusals(history, |_| true, MOST);
        refusals
            .filter_map(|refusal| unjustified(history, &refusal))
            .collect()
    },
};

pub(super) const FIRST: Promise = Promise {
    name: "share_first",
    words: "A share refuses no request of cost 1 of a member that has no counted units.",
    check: |history| {
        let Some(members) = Members::of(history) else {
            return Vec::new();
        };
        let refusals = refusals(history, is_by_store, MOST).filter(|it| it.charge.cost == 1);
        refusals
            .filter_map(|refusal| {
                let most = members.used(&refusal)?.most;
                let what = "refused, without counted units".to_owned();
                (most == 0.0).then(|| refusal.breach(&FIRST, what))
            })
            .collect()
    },
};

pub(super) const FAIR: Promise = Promise {
    name: "share_fair",
    words: "While no more of a limit is left than at a refusal by a share, no member is admitted that has more counted units by its \
            weight than the refused member.",
    check: |history| match Members::of(history) {
        Some(members) => unfair(history, &members),
        None => Vec::new(),
    },
};

/// Most refusals that are judged. Each is compared with all requests, which takes time.
const MOST: usize = 100;

/// A charge to a share, with the verdict of the share.
#[derive(Clone, Copy)]
struct Decided<'a> {
    request: &'a Request,
    charge: &'a Charge,
    member: Member,
    via: Via,
}

impl Decided<'_> {
    fn breach(&self, promise: &Promise, what: String) -> Breach {
        Breach {
            promise: promise.name,
            limit: self.charge.limit,
            key: Some(self.charge.key),
            span: self.request.asked,
            what: format!("member {}: {what}", self.member.name),
        }
    }

    /// The units of the limit that were left before the decision.
    fn left(&self) -> Option<u64> {
        left(self.request, self.charge)
    }
}

/// The units of a limit that were left before a decision. `None` if the history does not show them.
fn left(request: &Request, charge: &Charge) -> Option<u64> {
    let verdict = charge.verdict.filter(|verdict| verdict.allowed)?;
    let charged = if request.is_admitted() {
        charge.cost
    } else {
        0
    };
    Some(verdict.remaining + charged)
}

/// The charges to shares that Redis or the memory store decided.
fn decisions(history: &History) -> impl Iterator<Item = (Decided<'_>, bool)> {
    history.requests.iter().flat_map(move |request| {
        let charges = request.charges.iter();
        charges.filter_map(move |charge| {
            let (member, verdict) = charge.share?;
            let is_shared = history.mode(charge) == Mode::Exact && !charge.here;
            if !history.judges(charge.limit) || !is_shared && !history.in_memory {
                return None;
            }
            let decided = Decided {
                request,
                charge,
                member,
                via: source(history, request, request.via()?),
            };
            Some((decided, verdict?.allowed))
        })
    })
}

/// The requests that only a share refused, and not its limit. If there are more than `most`, every n-th of them.
fn refusals(
    history: &History,
    via: fn(Via) -> bool,
    most: usize,
) -> impl Iterator<Item = Decided<'_>> {
    let refusals = decisions(history).filter(|(it, is_allowed)| {
        !is_allowed && it.request.is_refused() && it.charge.verdict.is_none_or(|own| own.allowed)
    });
    let refusals: Vec<_> = refusals
        .map(|(it, _)| it)
        .filter(|it| via(it.via))
        .collect();
    let step = refusals.len() / most + 1;
    refusals.into_iter().step_by(step)
}

const fn is_by_store(via: Via) -> bool {
    matches!(via, Via::Store | Via::Here)
}

/// Finds a refusal while at least half of the limit was left.
fn unjustified(history: &History, refusal: &Decided<'_>) -> Option<Breach> {
    let Decided {
        request,
        charge,
        via,
        ..
    } = *refusal;
    let (at, age) = decided(history, request, charge, via);
    let question = Question {
        but: Some(request),
        age,
        ..Question::new(charge.limit, charge.key, at, charge.numbers)
    };
    let limit = charge.numbers.limit;
    let least = limit as f64 - used(history, &question).most;
    // The units paid off are computed in floating point here.
    (least >= limit.div_ceil(2) as f64 + 0.01).then(|| {
        let what = format!("refused, with at least {least:.2} of {limit} left");
        refusal.breach(&IDLE, what)
    })
}

/// A history in which each member is a key of a counter.
struct Members {
    history: History,
    /// The limit and the window of each counter.
    counters: Vec<(usize, Micros)>,
}

impl Members {
    /// `None` if counted units cannot be known: after a step of the clock, and while a slot of a cluster moves.
    fn of(history: &History) -> Option<Self> {
        let is_unknown = history.in_cluster && !history.troubles.is_empty();
        if is_unknown || !history.steps.is_empty() {
            return None;
        }
        let charges = history.requests.iter().flat_map(|request| &request.charges);
        let shared = charges.filter(|charge| charge.share.is_some());
        let mut counters: Vec<_> = shared
            .map(|charge| (charge.limit, window(&charge.numbers)))
            .collect();
        counters.sort_unstable();
        counters.dedup();
        let limits = counters.iter().map(|(limit, window)| Limit {
            kind: Kind::Counter,
            window: *window,
            ..history.limits[*limit].clone()
        });
        let mut members = Self {
            history: History {
                limits: limits.collect(),
                resets: Vec::new(),
                ..history.clone()
            },
            counters,
        };
        let counters = &members.counters;
        let requests = &mut members.history.requests;
        requests.retain(|request| request.is_admitted() || request.is_unanswered());
        for request in requests {
            let said = request.clone();
            request.charges.retain_mut(|charge| {
                let Some((member, verdict)) = charge.share else {
                    return false;
                };
                let reserves = history.limits[charge.limit].reserves;
                let is_free = left(&said, charge)
                    .is_some_and(|left| left >= charge.numbers.limit.div_ceil(2));
                let counter = (charge.limit, window(&charge.numbers));
                charge.limit = counters.binary_search(&counter).unwrap();
                charge.key = member.name;
                charge.verdict = verdict;
                // What is charged at once while half is left is not counted.
                reserves || !is_free
            });
        }
        Some(members)
    }

    /// The counted units of a member before a decision, as bounds.
    fn used(&self, decided: &Decided<'_>) -> Option<Used> {
        let charge = decided.charge;
        let counter = (charge.limit, window(&charge.numbers));
        let limit = self.counters.binary_search(&counter).ok()?;
        let at = match self.history.in_memory {
            true => decided.request.asked,
            false => charge.at,
        };
        // The same request in the history of members.
        let mut requests = self.history.requests.iter();
        let own = requests
            .find(|it| it.asked == decided.request.asked && it.gateway == decided.request.gateway);
        let question = Question {
            but: own,
            ..Question::new(limit, decided.member.name, at, charge.numbers)
        };
        Some(used(&self.history, &question))
    }
}

/// The window in which a share counts: the time in which the limit refills, but a second at least.
fn window(numbers: &Numbers) -> Micros {
    (numbers.per * numbers.limit / numbers.refill).max(1_000_000)
}

/// The tolerance for the estimate of the counted units, whose time is rounded.
const SLACK: f64 = 0.2;

/// Finds a member that was admitted while a member with fewer counted units was refused.
fn unfair(history: &History, members: &Members) -> Vec<Breach> {
    let mut broken = Vec::new();
    let admitted: Vec<_> = decisions(history)
        .filter(|(it, _)| {
            is_by_store(it.via)
                && budget(history, it.request, it.charge) == Some(Budget::Shared)
                && it
                    .left()
                    .is_some_and(|left| left < it.charge.numbers.limit.div_ceil(2))
        })
        .filter_map(|(it, _)| {
            let least = members.used(&it)?.least;
            // Without counted units, a member may use one.
            (least > 0.0).then_some((it, least))
        })
        .collect();
    for refusal in refusals(history, is_by_store, MOST) {
        let (Some(left), Some(Used { most, .. })) = (refusal.left(), members.used(&refusal)) else {
            continue;
        };
        let refused = by_weight(most + refusal.charge.cost as f64 + SLACK, refusal.member);
        let better = admitted.iter().find(|(other, least)| {
            let admitted = least + other.charge.cost as f64 - 1.0;
            other.charge.limit == refusal.charge.limit
                && other.charge.key == refusal.charge.key
                && other.charge.numbers == refusal.charge.numbers
                && other.left().is_some_and(|other| other <= left)
                && by_weight(admitted, other.member) > refused
        });
        broken.extend(better.map(|(other, least)| {
            let what = format!(
                "refused with at most {most:.2} units and {left} left, but member {} was admitted with at least {least:.2}",
                other.member.name
            );
            refusal.breach(&FAIR, what)
        }));
    }
    broken
}

fn by_weight(units: f64, member: Member) -> f64 {
    units / member.weight as f64
}
