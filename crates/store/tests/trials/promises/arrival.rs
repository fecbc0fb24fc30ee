//! When messages that a gateway sends without waiting for an answer arrive in Redis, if they do.

use tidegate_core::Micros;

use crate::history::{History, Span};

/// A settlement, or a place that is given back, is in Redis so long after it was said, if there is no trouble.
pub(super) const GRACE: Micros = 800_000;

/// When something that a gateway said at a time is in Redis; none if it may never be.
pub(super) fn surely_done(history: &History, gateway: usize, said: Micros) -> Option<Micros> {
    let latest = latest(history, gateway, said);
    crash(history, gateway)
        .is_none_or(|crash| crash > latest)
        .then_some(latest)
}

/// When something that a gateway said at a time is in Redis at the latest, if it ever is. What is lost is sent again.
pub(super) fn latest(history: &History, gateway: usize, said: Micros) -> Micros {
    let mut at = said;
    let mut troubles: Vec<Span> = history.troubles_of(gateway).collect();
    troubles.sort_by_key(|span| span.begin);
    for trouble in troubles {
        if trouble.end >= said && trouble.begin <= at + GRACE {
            at = at.max(trouble.end);
        }
    }
    at + GRACE
}

/// When a gateway ended without a word.
pub(super) fn crash(history: &History, gateway: usize) -> Option<Micros> {
    let end = history.ends.iter().find(|end| end.gateway == gateway)?;
    (!end.in_order).then_some(end.at)
}
