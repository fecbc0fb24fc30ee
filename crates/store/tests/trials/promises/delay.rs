//! `leaky_bucket`: the queue releases requests one after the other.

use tidegate_core::Micros;

use super::arrival::GRACE;
use super::budget::{Budget, budget, most_generous};
use super::{Breach, Promise};
use crate::history::{History, Span};
use crate::law::Kind;

pub(super) const IN_ORDER: Promise = Promise {
    name: "delay",
    words: "A `leaky_bucket` releases requests in the order in which it admitted them, at least P / n apart.",
    check: |history| {
        let keys = history.keys().into_iter();
        keys.filter_map(|(limit, key)| check(history, limit, key))
            .collect()
    },
};

fn check(history: &History, limit: usize, key: u64) -> Option<Breach> {
    if history.limits[limit].kind != Kind::LeakyBucket {
        return None;
    }
    let numbers = most_generous(history, limit, key)?;
    let mut asked = history.of(limit, key).map(|(_, charge)| charge.numbers);
    if asked.any(|other| other != numbers) {
        // After a reload, the queue drains faster or slower, and requests may overtake earlier requests.
        return None;
    }
    let mut released: Vec<(Micros, Micros, u64)> = history
        .of(limit, key)
        .filter(|(_, charge)| history.in_memory || charge.at.begin == charge.at.end)
        .filter(|(request, charge)| budget(history, request, charge) == Some(Budget::Shared))
        .filter_map(|(_, charge)| {
            // The time from which the delay was computed.
            let at = charge.at.begin;
            Some((at, at + charge.verdict?.delay, charge.cost))
        })
        .collect();
    if history.in_memory {
        // The order of decisions on simultaneous requests is unknown.
        released.sort_unstable_by_key(|(_, release, _)| *release);
    } else {
        released.sort_unstable();
    }
    let forgotten = history.forgotten(limit, key);
    // Turns that were held for requests which another slot or limit refused.
    let split = history.of(limit, key).filter(|(request, charge)| {
        // A limit that the gateway counts itself holds a turn until the other limits have decided.
        let is_held = !history.in_memory && charge.here && request.charges.len() > 1;
        (is_held || history.is_split(request)) && !request.is_admitted()
    });
    let dropped: Vec<Span> = split
        .map(|(request, _)| Span {
            begin: request.asked.begin,
            end: request.asked.end + GRACE,
        })
        .collect();
    released.windows(2).find_map(|pair| {
        let [(before, first, cost), (at, second, _)] = *pair else {
            return None;
        };
        let steps = history.steps.iter().map(|step| &step.span);
        if forgotten
            .iter()
            .chain(&dropped)
            .chain(steps)
            .any(|span| span.meets(before.min(at), at.max(before)))
        {
            return None;
        }
        let gap = cost as f64 * numbers.per as f64 / numbers.refill as f64;
        let is_early = (second as f64) < first as f64 + gap - 1.5;
        is_early.then(|| Breach {
            promise: IN_ORDER.name,
            limit,
            key: Some(key),
            span: Span {
                begin: before,
                end: at,
            },
            what: format!(
                "one goes on at {first}, the next at {second}, {gap:.0} us apart at least"
            ),
        })
    })
}
