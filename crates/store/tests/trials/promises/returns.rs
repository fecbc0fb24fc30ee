//! Refusals end at their retry-after.

use tidegate_core::Micros;
use tidegate_store::{Mode, Via};

use super::arrival::latest;
use super::known::{SECOND, known, refused};
use super::{Breach, Promise};
use crate::history::{Charge, History, Request, Return, Span};

/// The longest time for which a gateway uses an answer about a slice, in us.
const LEASED: Micros = 2_500_000;

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
    let returns = returns.filter(|again| !is_outdated(history, again) && !is_early(history, again));
    let returns = returns.filter(|again| !was_held(history, again));
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

/// Whether the gateway may have estimated Redis's clock too far ahead. A late answer has this effect, until the next answer.
fn is_early(history: &History, again: &Return) -> bool {
    let is_synced = history.limits[again.limit].mode == Mode::Synced && !history.in_memory;
    let begin = again.refused.saturating_sub(SECOND);
    let mut troubles = history.troubles.iter();
    is_synced && troubles.any(|trouble| trouble.span.meets(begin, again.refused))
}

/// Whether requests may have held units of the key at the time of the refusal. Their real cost was charged later.
fn was_held(history: &History, again: &Return) -> bool {
    let mut charges = history.of(again.limit, again.key);
    history.limits[again.limit].reserves
        && charges.any(|(request, charge)| {
            let may_hold = charge.verdict.is_none_or(|told| told.allowed);
            let ended = request
                .settled
                .map(|at| latest(history, request.gateway, at));
            let is_later = ended.is_none_or(|ended| ended >= again.refused);
            may_hold && charge.at.begin <= again.refused && is_later
        })
}

/// Whether another gateway charged the key, or extended its block, after the answer that the refusing gateway remembered. A charge by the
/// numbers before a reload counts as a charge of another gateway.
fn is_outdated(history: &History, again: &Return) -> bool {
    let refused = history
        .of(again.limit, again.key)
        .filter(|(request, charge)| {
            request.asked.end <= again.refused && charge.refused_for().is_some()
        });
    let Some((request, charge)) = refused.max_by_key(|(request, _)| request.asked.end) else {
        return false;
    };
    is_charged_elsewhere(history, request, charge, Micros::MAX)
}

/// Whether a gateway may have refused from memory, and another gateway charged the key, or extended its block, between the answer and
/// this time.
fn is_charged_elsewhere(
    history: &History,
    request: &Request,
    refused: &Charge,
    until: Micros,
) -> bool {
    let is_leased = history.mode(refused) == Mode::Leased && !history.in_memory;
    // If the request has other limits, the call may have been about these limits.
    let is_alone = |request: &Request| request.charges.len() == 1;
    let age = match request.via() {
        Some(Via::Remembered) if !is_leased => SECOND,
        Some(Via::Remembered | Via::Here) if is_leased => LEASED,
        Some(Via::Store) if is_leased && !is_alone(request) => LEASED,
        _ => return false,
    };
    let (begin, all) = (request.asked.begin, || {
        history.of(refused.limit, refused.key)
    });
    let is_own = |other: &Request, charge: &Charge| {
        other.gateway == request.gateway && charge.numbers == refused.numbers
    };
    let answers = all().filter(|(other, charge)| {
        let is_same = is_own(other, charge) && charge.cost == refused.cost;
        let is_called = other.called && (!is_leased || is_alone(other));
        is_same && is_called && other.asked.end <= begin
    });
    let last = answers.map(|(other, _)| other.asked.begin).max();
    let oldest = last.max(Some(begin.saturating_sub(age)));
    // With `extend`, each refused request prolongs a block.
    let block = history.limits[refused.limit].block;
    let is_extended = block.is_some_and(|block| block.extend);
    let mut others = all().filter(|(other, charge)| !is_own(other, charge));
    others.any(|(other, charge)| {
        // A call about a slice also sends the earlier charges of its gateway.
        let is_told = is_leased && other.called && other.gateway != request.gateway;
        let is_charged = is_told
            || charge
                .verdict
                .is_some_and(|told| told.allowed || is_extended);
        is_charged && Some(charge.at.end) >= oldest && charge.at.begin <= until
    })
}

/// Finds a refusal whose client cannot be admitted after the retry-after, even if no other request comes meanwhile.
fn in_vain(history: &History, request: &Request) -> Option<Breach> {
    let wait = wait_of(history, request)?;
    let back = request.asked.end + wait;
    known(history, request).find_map(|charge| {
        let limit = charge.charge.limit;
        if is_charged_elsewhere(history, request, charge.charge, request.asked.end)
            || holds_more_elsewhere(history, charge.charge)
        {
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

/// Whether gateways with larger numbers may hold more units of a bucket than the refusing gateway has. Its wait does not include them.
fn holds_more_elsewhere(history: &History, refused: &Charge) -> bool {
    let limit = &history.limits[refused.limit];
    let mut charges = history.of(refused.limit, refused.key);
    limit.kind.is_bucket()
        && limit.reserves
        && charges.any(|(_, charge)| charge.numbers.limit > refused.numbers.limit)
}

/// The longest wait of the limits that refuse a request.
fn wait_of(history: &History, request: &Request) -> Option<Micros> {
    let charges = request.charges.iter();
    let enforced = charges.filter(|charge| !history.limits[charge.limit].is_observed);
    enforced.filter_map(Charge::refused_for).max()
}
