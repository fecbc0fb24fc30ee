//! Refusals of requests that fit into what is left.

use tidegate_core::Micros;
use tidegate_store::{Mode, Outcome, Via};

use super::block;
use super::known::is_fresh;
use super::used::{Question, used};
use super::{Breach, Promise};
use crate::history::{Charge, History, Request, Said, Span};

pub(super) const JUSTIFIED: Promise = Promise {
    name: "refusal",
    words: "Under `mode: exact` a limit refuses a request only if the request does not fit into what is left, or its key is \
            blocked: nobody is refused who never exceeded.",
    check: |history| check(history, Refusals::OfQuotas, &JUSTIFIED),
};

pub(super) const REMEMBERED: Promise = Promise {
    name: "remembered_refusal",
    words: "A refusal that a gateway remembers ends with its retry-after. It may miss for one second what a reset \
            made free.",
    check: |history| check(history, Refusals::Remembered, &REMEMBERED),
};

/// The longest time for which a gateway repeats a refusal, in us.
const REMEMBERED_FOR: Micros = 1_050_000;

/// A kind of refusals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusals {
    /// By limits without a block.
    OfQuotas,
    /// By limits with a block.
    OfBlocks,
    /// Refusals that a gateway repeated.
    Remembered,
}

pub(super) fn check(history: &History, wanted: Refusals, promise: &Promise) -> Vec<Breach> {
    let mut broken = Vec::new();
    for request in &history.requests {
        let Said::Decided {
            outcome: Outcome::Refused,
            via,
            ..
        } = request.said
        else {
            continue;
        };
        let judged = request.charges.iter();
        let judged = judged.filter(|charge| history.judges(charge.limit));
        let via = source(history, request, via);
        let is_wanted = |charge: &&Charge| match (via, history.limits[charge.limit].block) {
            (Via::Remembered, _) => wanted == Refusals::Remembered,
            (Via::Store, None) => wanted == Refusals::OfQuotas,
            (Via::Store, Some(_)) => wanted == Refusals::OfBlocks,
            _ => false,
        };
        for charge in judged.filter(is_wanted) {
            broken.extend(unjustified(history, request, charge, via, promise));
        }
    }
    broken
}

/// Whether Redis, the gateway or its memory refused a request. If the request also has limits that the gateway counts itself, its refusal
/// may be a remembered one.
pub(super) fn source(history: &History, request: &Request, via: Via) -> Via {
    match via {
        Via::Here | Via::Store if !history.in_memory && !is_fresh(history, request) => {
            Via::Remembered
        }
        _ => via,
    }
}

/// The time of the decision that refused a charge, and its greatest age.
pub(super) fn decided(
    history: &History,
    request: &Request,
    charge: &Charge,
    via: Via,
) -> (Span, Micros) {
    let (at, age) = match via {
        // The gateway remembers a refusal from the arrival of the answer on, which may be late.
        Via::Remembered => (
            Span {
                begin: request.asked.begin - history.timeout - history.leeway.ahead,
                end: request.asked.end,
            },
            REMEMBERED_FOR + history.leeway.ahead,
        ),
        // The request that arrives first is not always decided first.
        _ if history.in_memory => (request.asked, 0),
        _ => (charge.at, 0),
    };
    let at = Span {
        begin: at.begin - history.leeway.back,
        end: at.end,
    };
    (at, age)
}

fn unjustified(
    history: &History,
    request: &Request,
    charge: &Charge,
    via: Via,
    promise: &Promise,
) -> Option<Breach> {
    if history.limits[charge.limit].becomes.is_some() {
        return None;
    }
    let is_by_redis = history.mode(charge) == Mode::Exact && !charge.here;
    if charge.verdict?.allowed || !(is_by_redis || history.in_memory) {
        return None;
    }
    let (at, age) = decided(history, request, charge, via);
    let question = Question {
        but: Some(request),
        age,
        ..Question::new(charge.limit, charge.key, at, charge.numbers)
    };
    let most = used(history, &question).most;
    let limit = charge.numbers.limit;
    // The units paid off are computed in floating point here.
    let slack = if most.fract() == 0.0 { 0.0 } else { 0.01 };
    let fits = most + charge.cost as f64 <= limit as f64 - slack;
    let is_blocked = || block::may_last(history, charge.limit, charge.key, Some(request), at, age);
    (fits && !is_blocked()).then(|| Breach {
        promise: promise.name,
        limit: charge.limit,
        key: Some(charge.key),
        span: request.asked,
        what: format!(
            "{} refused, with at most {most:.2} of {limit} used",
            charge.cost
        ),
    })
}
