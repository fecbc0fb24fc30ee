//! `concurrency`: the number of requests that run at the same time, as the upstream counts them.

use tidegate_core::Micros;

use super::budget::{Budget, budget, most_generous};
use super::{Breach, Promise};
use crate::history::{History, Span};
use crate::law::{Kind, Numbers};

pub(super) const AT_MOST: Promise = Promise {
    name: "concurrency",
    words: "A `concurrency` limit lets no request begin while as many run as the limit says. It does not count requests whose \
            gateway could not renew their holds for half of the `lease`, until it has taken them again.",
    check,
};

/// The longest time after a trouble until a gateway is connected again, and has renewed its holds.
const RECOVERY: Micros = 500_000;

/// The longest time until a gateway has replaced a lost connection.
const RECONNECT: Micros = 200_000;

/// A request that runs.
struct Running {
    from: Span,
    /// The earliest time of its decision.
    decided: Micros,
    /// The time at which its gateway received the answer.
    answered: Micros,
    until: Micros,
    cost: u64,
    gateway: usize,
    budget: Budget,
    numbers: Numbers,
}

fn check(history: &History) -> Vec<Breach> {
    let mut broken = Vec::new();
    for (limit, key) in history.keys() {
        if history.limits[limit].kind == Kind::Concurrency {
            broken.extend(check_key(history, limit, key));
        }
    }
    broken
}

fn check_key(history: &History, limit: usize, key: u64) -> Option<Breach> {
    let numbers = most_generous(history, limit, key)?;
    let lease = history.limits[limit].window;
    let charges = history.of(limit, key);
    let running: Vec<Running> = charges
        .filter_map(|(request, charge)| {
            Some(Running {
                // A gateway reads the clock before it decides.
                from: if charge.here {
                    request.asked
                } else {
                    charge.at
                },
                decided: charge.at.begin,
                answered: request.asked.end,
                until: request.ran_until.unwrap_or(Micros::MAX),
                cost: charge.cost,
                gateway: request.gateway,
                numbers: charge.numbers,
                budget: budget(history, request, charge)?,
            })
        })
        .collect();
    for one in &running {
        let now = one.from.end;
        let others = running.iter().filter(|other| {
            other.from.end <= now
                && other.until > now
                && is_counted(history, one, other, lease)
                && !is_unknown(history, other, limit, key, lease, now)
        });
        let allowed_at = |numbers: &Numbers, at: Micros| match one.budget {
            Budget::Shared | Budget::Either(_) => numbers.limit,
            Budget::Alone(gateway) => history.share(numbers, gateway, limit, at).limit,
        };
        if matches!(one.budget, Budget::Either(_)) {
            continue;
        }
        // A cost above the share counts as the share.
        let cost = |other: &Running| {
            let share = allowed_at(&other.numbers, other.from.end);
            other.cost.min(share)
        };
        let (count, allowed): (u64, u64) = (others.map(cost).sum(), allowed_at(&numbers, now));
        if count > allowed {
            return Some(Breach {
                promise: AT_MOST.name,
                limit,
                key: Some(key),
                span: Span::at(now),
                what: format!("{count} run, allowed {allowed}"),
            });
        }
    }
    None
}

/// Whether the decision on `one` counts `other`. A gateway without Redis counts its own running requests, as far as it has Redis's answers.
/// Redis counts requests that a gateway admitted by itself, after the gateway has had time to register their places.
fn is_counted(history: &History, one: &Running, other: &Running, lease: Micros) -> bool {
    let now = one.from.begin;
    match (one.budget, other.budget) {
        (one, other) if one == other => true,
        (Budget::Alone(gateway), Budget::Shared) => {
            gateway == other.gateway && other.answered <= one.decided
        }
        (Budget::Shared, Budget::Alone(gateway)) => {
            let since = now.saturating_sub(RECOVERY + lease / 3);
            let mut troubles = history.troubles_of(gateway);
            other.from.end < since && !troubles.any(|trouble| trouble.meets(since, now))
        }
        _ => false,
    }
}

/// Whether a place may have been lost, and may not be registered again yet.
fn is_unknown(
    history: &History,
    place: &Running,
    limit: usize,
    key: u64,
    lease: Micros,
    now: Micros,
) -> bool {
    if matches!(place.budget, Budget::Alone(_)) {
        return false;
    }
    // A renewal registers lost places again.
    let again = RECOVERY + lease / 3;
    let forgotten = history.forgotten(limit, key);
    let mut forgotten = forgotten.iter();
    if forgotten.any(|span| span.meets(place.from.begin, now) && now <= span.end + again) {
        return true;
    }
    let mut troubles: Vec<Span> = history.troubles_of(place.gateway).collect();
    troubles.sort_by_key(|span| span.begin);
    let mut merged: Vec<Span> = Vec::new();
    for trouble in troubles {
        match merged
            .last_mut()
            .filter(|last| trouble.begin <= last.end + RECONNECT)
        {
            Some(last) => last.end = last.end.max(trouble.end),
            None => merged.push(trouble),
        }
    }
    merged.iter().any(|trouble| {
        let unrenewed = trouble.begin + lease / 2;
        unrenewed <= trouble.end + RECONNECT && unrenewed <= now && now <= trouble.end + again
    })
}
