//! What the store holds when all trouble is over and all has settled.

use tidegate_store::Mode;

use super::arrival::crash;
use super::block;
use super::used::{Question, used};
use super::{Breach, Promise};
use crate::history::{History, Look, Span};
use crate::law::Kind;

pub(super) const KEPT: Promise = Promise {
    name: "kept",
    words: "When the trouble has ended and all has settled, the store holds what was admitted.",
    check: kept,
};

pub(super) const FRESH: Promise = Promise {
    name: "fresh_key",
    words: "A key that was never used has its whole quota, whatever happened to others.",
    check: |history| {
        let fresh = history.looks.iter();
        let fresh = fresh.filter(|look| look.key.is_none() && history.judges_gateways());
        let breach = fresh.filter_map(|look| {
            let what = format!("{} of {} left", look.remaining, look.numbers.limit);
            (look.remaining != look.numbers.limit).then(|| breach(&FRESH, look, what))
        });
        breach.collect()
    },
};

fn kept(history: &History) -> Vec<Breach> {
    history
        .looks
        .iter()
        .filter(|look| history.judges(look.limit))
        .filter_map(|look| lost(history, look))
        .collect()
}

fn lost(history: &History, look: &Look) -> Option<Breach> {
    let question = Question {
        limit: look.limit,
        key: look.key?,
        at: Span {
            begin: look.at - history.leeway.back,
            end: look.at,
        },
        numbers: look.numbers,
        but: None,
        age: 0,
        is_over: true,
    };
    let known = &history.limits[look.limit];
    let used = used(history, &question);
    let limit = look.numbers.limit as f64;
    let most_left = (limit - used.least + 0.01).floor().max(0.0);
    let slack = if used.most.fract() == 0.0 { 0.0 } else { 0.01 };
    let mut least_left = (limit - used.most - slack).floor().max(0.0);
    if known.mode == Mode::Leased && may_be_lent(history, look.limit) {
        least_left = 0.0;
    }
    if block::may_last(history, look.limit, look.key?, None, question.at, 0) {
        least_left = 0.0;
    }
    if known.kind == Kind::Counter {
        least_left = (least_left - 1.0).max(0.0);
    }
    let left = look.remaining as f64;
    let is_kept = (least_left..=most_left).contains(&left);
    (!is_kept).then(|| {
        let what = format!("{left} of {limit} left, expected {least_left} to {most_left}");
        breach(&KEPT, look, what)
    })
}

/// Whether something may still be lent that is not used. This is a slice of a gateway that ended without a word, or that was left
/// when numbers changed or an answer was lost.
fn may_be_lent(history: &History, limit: usize) -> bool {
    let requests = history.requests.iter();
    let mut own =
        requests.filter(|request| request.charges.iter().any(|charge| charge.limit == limit));
    let has_changed = {
        let mut numbers = history.requests.iter().flat_map(|request| &request.charges);
        let mut numbers = numbers
            .by_ref()
            .filter(|charge| charge.limit == limit)
            .map(|charge| charge.numbers);
        let first = numbers.next();
        numbers.any(|numbers| Some(numbers) != first)
    };
    // A slice that ends with its window is given back to nobody.
    let ends_soon = history.limits[limit].window < 60_000_000;
    ends_soon
        || has_changed
        || !history.troubles.is_empty()
        || own.any(|request| request.is_unanswered() || crash(history, request.gateway).is_some())
}

fn breach(promise: &Promise, look: &Look, what: String) -> Breach {
    Breach {
        promise: promise.name,
        limit: look.limit,
        key: look.key,
        span: Span::at(look.at),
        what,
    }
}
