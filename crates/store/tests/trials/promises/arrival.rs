//! Computes when messages arrive in Redis that a gateway sends without waiting for an answer.

use tidegate_core::Micros;

use crate::history::{History, Span};

/// The longest time until a settlement or the release of a place is in Redis, without any trouble.
pub(super) const GRACE: Micros = 800_000;

/// The time until which a message of a gateway surely is in Redis. `None` if it may never arrive.
pub(super) fn surely_done(history: &History, gateway: usize, said: Micros) -> Option<Micros> {
    let latest = latest(history, gateway, said);
    crash(history, gateway)
        .is_none_or(|crash| crash > latest)
        .then_some(latest)
}

/// The latest time at which a message of a gateway arrives in Redis, if it arrives. Lost messages are sent again.
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

/// When a gateway was killed.
pub(super) fn crash(history: &History, gateway: usize) -> Option<Micros> {
    let end = history.ends.iter().find(|end| end.gateway == gateway)?;
    (!end.in_order).then_some(end.at)
}

/// Whether Redis may have lost a message that this gateway sent at this time: a replica that took over may have missed it.
pub(super) fn may_be_missed(history: &History, gateway: usize, sent: Micros) -> bool {
    let end = surely_done(history, gateway, sent).unwrap_or(sent);
    history.may_be_lost(Span { begin: sent, end })
}
