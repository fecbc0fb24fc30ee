//! Requests that gateways admit by themselves: by their share in an outage, by a limit of `mode: local`, or none at all.

use tidegate_store::{Mode, OnFailure};

use super::at_most::{Excess, Law, breach, most, overshoot};
use super::budget::{Budget, Weighed, admitted, most_generous};
use super::{Breach, Promise};
use crate::history::{History, Said};
use crate::law::{Kind, Numbers};

pub(super) const LOCAL: Promise = Promise {
    name: "on_failure_local",
    words: "Under `on_failure: local` a gateway without Redis admits at most its share of the limit in addition: the limit \
            divided by the largest number of gateways that it was told, and at least 1. A request that costs more than the \
            share counts as the share.",
    check: |history| {
        let mut broken = Vec::new();
        for (limit, key) in history.all_keys() {
            if history.in_memory || !is_judged(history, limit) {
                continue;
            }
            broken.extend(alone(history, limit, key, &LOCAL, |numbers, gateways| {
                numbers.divided(gateways)
            }));
            broken.extend(in_all(history, limit, key));
        }
        broken
    },
};

pub(super) const LOCAL_MODE: Promise = Promise {
    name: "local",
    words: "Under `mode: local` each gateway admits at most the limit.",
    check: |history| {
        let mut broken = Vec::new();
        for (limit, key) in history.keys() {
            if !history.in_memory && history.limits[limit].mode == Mode::Local {
                broken.extend(alone(history, limit, key, &LOCAL_MODE, |numbers, _| {
                    numbers
                }));
            }
        }
        broken
    },
};

pub(super) const CLOSED: Promise = Promise {
    name: "on_failure_closed",
    words: "Under `on_failure: closed` nothing is admitted without Redis, but what a gateway has already borrowed.",
    check: closed,
};

/// Counts that gateways keep themselves have no promises while Redis's clock is stepped.
fn is_judged(history: &History, limit: usize) -> bool {
    let mode = history.limits[limit].mode;
    history.judges_gateways()
        && mode != Mode::Local
        && (history.steps.is_empty() || mode == Mode::Exact)
}

/// Checks each gateway that admitted requests by itself.
fn alone(
    history: &History,
    limit: usize,
    key: u64,
    promise: &Promise,
    part: fn(Numbers, u64) -> Numbers,
) -> Vec<Breach> {
    let mut broken = Vec::new();
    for (gateway, _) in gateways_alone(history, limit, key) {
        let belongs = |budget| budget == Budget::Alone(gateway);
        let mut charges = admitted(history, limit, key, belongs);
        let told = told(history, gateway, &charges);
        let share = |numbers| part(numbers, told);
        cap(&mut charges, |numbers, _| share(numbers).limit);
        if let Some(excess) = judge(history, limit, key, &charges, share) {
            let mut breach = breach(promise.name, limit, key, &excess);
            breach.what = format!("gateway {gateway} alone: {}", breach.what);
            broken.push(breach);
        }
    }
    broken
}

/// Checks all admitted requests, if the budget of some is unknown. The whole limit and the share of each such gateway are allowed.
fn in_all(history: &History, limit: usize, key: u64) -> Option<Breach> {
    let gateways = gateways_alone(history, limit, key);
    if !gateways.iter().any(|(_, is_sure)| !is_sure) {
        return None;
    }
    let mut charges = admitted(history, limit, key, |_| true);
    let shares: Vec<(usize, u64)> = gateways
        .iter()
        .map(|(gateway, _)| (*gateway, told(history, *gateway, &charges)))
        .collect();
    let share_of = |numbers: Numbers, gateway: usize| {
        let told = shares.iter().find(|(known, _)| *known == gateway);
        told.map_or(numbers, |(_, told)| numbers.divided(*told))
    };
    cap(&mut charges, |numbers, gateway| {
        share_of(numbers, gateway).limit
    });
    let is_synced = history.limits[limit].mode == Mode::Synced;
    let unseen = history.unseen + history.timeout;
    let beyond = if is_synced {
        overshoot(&charges, unseen)
    } else {
        0
    };
    let share = |numbers: Numbers| {
        let mut all = numbers;
        all.limit += beyond;
        for (gateway, _) in &shares {
            all.limit += share_of(numbers, *gateway).limit;
            all.refill += numbers.refill;
        }
        all
    };
    let excess = judge(history, limit, key, &charges, share)?;
    Some(breach(LOCAL.name, limit, key, &excess))
}

/// Lowers the charges that gateways admitted by themselves: together they count for at most the gateway's share.
fn cap(charges: &mut [Weighed], most: impl Fn(Numbers, usize) -> u64) {
    for charge in charges
        .iter_mut()
        .filter(|charge| charge.budget != Budget::Shared)
    {
        charge.cost = charge.cost.min(most(charge.numbers, charge.gateway));
    }
}

fn judge(
    history: &History,
    limit: usize,
    key: u64,
    charges: &[Weighed],
    share: impl Fn(Numbers) -> Numbers,
) -> Option<Excess> {
    let numbers = share(most_generous(history, limit, key)?);
    let known = &history.limits[limit];
    let forgotten = history.forgotten(limit, key);
    let law = Law {
        kind: known.kind,
        numbers,
        window: known.window,
        forgotten: &forgotten,
        unseen: 0,
    };
    (known.kind != Kind::Concurrency)
        .then(|| most(&law, charges))
        .flatten()
}

/// The gateways that admitted requests by themselves, and whether this is sure.
fn gateways_alone(history: &History, limit: usize, key: u64) -> Vec<(usize, bool)> {
    let charges = history.of(limit, key);
    let mut gateways: Vec<(usize, bool)> = charges
        .filter_map(
            |(request, charge)| match super::budget::budget(history, request, charge)? {
                Budget::Shared => None,
                Budget::Alone(gateway) => Some((gateway, true)),
                Budget::Either(gateway) => Some((gateway, false)),
            },
        )
        .collect();
    gateways.sort_unstable();
    gateways.dedup();
    gateways
}

/// The largest number of gateways that this gateway received before it admitted the first of these charges.
fn told(history: &History, gateway: usize, charges: &[Weighed]) -> u64 {
    let own = charges.iter().filter(|charge| charge.gateway == gateway);
    let first = own.map(|charge| charge.at.begin).min().unwrap_or(0);
    history.told(gateway, first)
}

fn closed(history: &History) -> Vec<Breach> {
    let mut broken = Vec::new();
    for request in history
        .requests
        .iter()
        .filter(|_| !history.in_memory && history.judges_gateways())
    {
        if !request.is_admitted() {
            continue;
        }
        for charge in &request.charges {
            let limit = &history.limits[charge.limit];
            let is_admitted = charge.verdict.is_some_and(|verdict| verdict.allowed);
            if limit.is_observed {
                continue;
            }
            let is_by_redis = limit.mode != Mode::Exact || !charge.here;
            if limit.on_failure == OnFailure::Closed && !(is_admitted && is_by_redis) {
                let Said::Decided { via, error, .. } = &request.said else {
                    continue;
                };
                broken.push(Breach {
                    promise: CLOSED.name,
                    limit: charge.limit,
                    key: Some(charge.key),
                    span: request.asked,
                    what: format!("admitted via {via:?} ({error:?})"),
                });
            }
        }
    }
    broken
}
