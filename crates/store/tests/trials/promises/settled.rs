//! The budgets in the store after all trouble and all settlements.

use tidegate_core::Micros;
use tidegate_store::Mode;

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
        .filter(|look| history.judges(look.limit) && history.limits[look.limit].becomes.is_none())
        .filter_map(|look| lost(history, look))
        .collect()
}

fn lost(history: &History, look: &Look) -> Option<Breach> {
    let at = Span {
        begin: look.at - history.leeway.back,
        end: look.at,
    };
    let question = Question {
        is_over: true,
        is_lent_known: look.lent.is_some(),
        ..Question::new(look.limit, look.key?, at, look.numbers)
    };
    let known = &history.limits[look.limit];
    let used = used(history, &question);
    let limit = look.numbers.limit as f64;
    // Lent units count as used.
    let lent = look.lent.unwrap_or(0) as f64;
    let most_left = (limit - used.least + lent + 0.01).floor().clamp(0.0, limit);
    let slack = if used.most.fract() == 0.0 { 0.0 } else { 0.01 };
    let mut least_left = (limit - used.most - slack).floor().max(0.0);
    if known.mode == Mode::Leased && may_be_charged_whole(history, look) {
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

/// The time after which a slice lapses, and counts as spent.
const TERM: Micros = 5_000_000;

/// Whether unspent slices may count as spent, because they lapsed or ended with their window before they were returned.
fn may_be_charged_whole(history: &History, look: &Look) -> bool {
    let first = history.requests.iter().map(|request| request.asked.begin);
    let first = first.min().unwrap_or(look.at);
    history.limits[look.limit].window < 60_000_000
        || look.lent.is_none()
        || look.at > first + TERM - SLACK
}

/// The tolerance for the time between a reading of the clock and the call.
const SLACK: Micros = 500_000;

fn breach(promise: &Promise, look: &Look, what: String) -> Breach {
    Breach {
        promise: promise.name,
        limit: look.limit,
        key: look.key,
        span: Span::at(look.at),
        what,
    }
}
