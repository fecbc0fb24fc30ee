//! A refusal ends at its retry-after.

use tidegate_core::Micros;
use tidegate_store::Via;

use super::known::{SECOND, known, refused};
use super::{Breach, Promise};
use crate::history::{History, Request, Return, Span};

pub(super) const RETRY_AFTER: Promise = Promise {
    name: "retry_after",
    words: "A request that is refused, and asks again alone when its retry-after is over, is admitted.",
    check: |history| {
        let mut broken = came_back(history);
        broken.extend(refused(history).filter_map(|request| in_vain(history, request)));
        broken
    },
};

/// Requests that were refused again when they were alone.
fn came_back(history: &History) -> Vec<Breach> {
    let returns = history.returns.iter();
    let returns = returns.filter(|again| !again.admitted && history.judges_gateways());
    let returns = returns.filter(|again| !is_outdated(history, again));
    let breach = returns.map(|again| Breach {
        promise: RETRY_AFTER.name,
        limit: again.limit,
        key: Some(again.key),
        span: Span {
            begin: again.refused,
            end: again.asked_again,
        },
        what: format!("refused for {} us, and again after that", again.retry_after),
    });
    breach.collect()
}

/// Whether another gateway charged the key after the answer that its gateway remembered.
fn is_outdated(history: &History, again: &Return) -> bool {
    let refused = history
        .of(again.limit, again.key)
        .filter(|(request, charge)| {
            request.asked.end <= again.refused && charge.verdict.is_some_and(|told| !told.allowed)
        });
    let Some((refused, _)) = refused.max_by_key(|(request, _)| request.asked.end) else {
        return false;
    };
    is_charged_elsewhere(history, refused, (again.limit, again.key), Micros::MAX)
}

/// Whether a gateway gave a refusal from memory, and another gateway charged the key from a second before until this time.
fn is_charged_elsewhere(
    history: &History,
    refused: &Request,
    (limit, key): (usize, u64),
    until: Micros,
) -> bool {
    let mut others = history.of(limit, key).filter(|(request, charge)| {
        request.gateway != refused.gateway && charge.verdict.is_some_and(|told| told.allowed)
    });
    let oldest = refused.asked.begin.saturating_sub(SECOND);
    let is_in_time = |at: &Span| at.end >= oldest && at.begin <= until;
    refused.via() == Some(Via::Remembered) && others.any(|(_, charge)| is_in_time(&charge.at))
}

/// A refusal whose client cannot be admitted when it comes back, also if no other request comes meanwhile.
fn in_vain(history: &History, request: &Request) -> Option<Breach> {
    let wait = wait_of(history, request)?;
    let back = request.asked.end + wait;
    known(history, request).find_map(|charge| {
        let limit = charge.charge.limit;
        let of = (limit, charge.charge.key);
        if is_charged_elsewhere(history, request, of, request.asked.end) {
            return None;
        }
        let back = back + charge.ahead();
        let why = history.judges(limit).then(|| charge.is_full_at(back))??;
        Some(Breach {
            promise: RETRY_AFTER.name,
            limit,
            key: Some(charge.charge.key),
            span: request.asked,
            what: format!(
                "refused for {wait} us via {:?}, with {why} after that",
                request.via()
            ),
        })
    })
}

/// The longest wait of the limits that refuse a request.
fn wait_of(history: &History, request: &Request) -> Option<Micros> {
    let charges = request.charges.iter();
    let enforced = charges.filter(|charge| !history.limits[charge.limit].is_observed);
    let refusing = enforced.filter_map(|charge| charge.verdict.filter(|verdict| !verdict.allowed));
    refusing.map(|verdict| verdict.retry_after).max()
}
