//! The units that running requests hold at the same time: of `concurrency`, and of limits that reserve a cost.

use tidegate_core::Micros;
use tidegate_store::Mode;

use super::budget::{Budget, budget, most_generous};
use super::{Breach, Promise};
use crate::history::{History, Span};
use crate::law::{Kind, Numbers};

pub(super) const AT_MOST: Promise = Promise {
    name: "concurrency",
    words: "A `concurrency` limit lets no request begin while as many run as the limit says. It does not count requests whose \
            gateway could not renew their holds for half of the `lease`, until it has taken them again.",
    check: |history| check(history, &AT_MOST),
};

pub(super) const HELD: Promise = Promise {
    name: "reserve",
    words: "If requests reserve units until their answers name the cost, the requests that run at the same time hold at most the \
            limit. It does not count requests whose gateway could not renew their holds for half of the lease.",
    check: |history| check(history, &HELD),
};

/// The lease of holds, as bounds, in us.
#[derive(Clone, Copy)]
struct Lease {
    least: Micros,
    most: Micros,
}

/// The lease of reserved units in all trials.
const RESERVED: Lease = Lease {
    least: 300_000,
    most: 5_000_000,
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

fn check(history: &History, promise: &Promise) -> Vec<Breach> {
    let is_held = promise.name == HELD.name;
    let mut broken = Vec::new();
    for (limit, key) in history.keys() {
        let known = &history.limits[limit];
        let is_meant = match is_held {
            true => known.reserves && known.mode == Mode::Exact,
            false => known.kind == Kind::Concurrency,
        };
        if is_meant {
            broken.extend(check_key(history, limit, key, promise));
        }
    }
    broken
}

fn check_key(history: &History, limit: usize, key: u64, promise: &Promise) -> Option<Breach> {
    let numbers = most_generous(history, limit, key)?;
    let window = history.limits[limit].window;
    let is_held = promise.name == HELD.name;
    let lease = match is_held {
        true => RESERVED,
        false => Lease {
            least: window,
            most: window,
        },
    };
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
                // A hold without an end lapses.
                until: match is_held {
                    true => request.settled?,
                    false => request.ran_until.unwrap_or(Micros::MAX),
                },
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
                promise: promise.name,
                limit,
                key: Some(key),
                span: Span::at(now),
                what: format!("{count} units run, allowed {allowed}"),
            });
        }
    }
    None
}

/// Whether the decision on `one` counts `other`. A gateway without Redis counts its own running requests, as far as it has Redis's answers.
/// Redis counts requests that a gateway admitted by itself, after the gateway has had time to register their places.
fn is_counted(history: &History, one: &Running, other: &Running, lease: Lease) -> bool {
    let now = one.from.begin;
    match (one.budget, other.budget) {
        (one, other) if one == other => true,
        (Budget::Alone(gateway), Budget::Shared) => {
            gateway == other.gateway && other.answered <= one.decided
        }
        (Budget::Shared, Budget::Alone(gateway)) => {
            let since = now.saturating_sub(RECOVERY + lease.most / 3);
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
    lease: Lease,
    now: Micros,
) -> bool {
    if matches!(place.budget, Budget::Alone(_)) {
        return false;
    }
    // A renewal registers lost places again.
    let again = RECOVERY + lease.most / 3;
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
        let unrenewed = trouble.begin + lease.least / 2;
        unrenewed <= trouble.end + RECONNECT && unrenewed <= now && now <= trouble.end + again
    })
}
