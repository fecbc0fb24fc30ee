//! Limits that leave `mode: leased` by a reload.

use tidegate_core::Micros;
use tidegate_store::Mode;

use super::at_most::{Law, breach, most, overshoot};
use super::budget::{Budget, admitted, most_generous};
use super::{Breach, Promise};
use crate::history::{History, Request};

pub(super) const LEFT: Promise = Promise {
    name: "leaving_leased",
    words: "A limit that leaves `mode: leased` is exceeded by no more than what is lent to gateways that have not left that mode \
            yet.",
    check: |history| {
        let keys = history.keys().into_iter();
        keys.filter_map(|(limit, key)| exceeded(history, limit, key))
            .collect()
    },
};

fn exceeded(history: &History, limit: usize, key: u64) -> Option<Breach> {
    let known = &history.limits[limit];
    let becomes = known.becomes.filter(|_| known.mode == Mode::Leased)?;
    // Without Redis, slices cannot be returned.
    if history.in_memory
        || history
            .troubles
            .iter()
            .any(|trouble| trouble.gateway.is_some())
    {
        return None;
    }
    let mut numbers = most_generous(history, limit, key)?;
    let charges = admitted(history, limit, key, |budget| budget == Budget::Shared);
    numbers.limit += lent_to_others(history, limit, key);
    if becomes == Mode::Synced {
        numbers.limit += overshoot(&charges, history.unseen);
        numbers.limit += before_the_first_exchange(history, limit, key);
    }
    let forgotten = history.forgotten(limit, key);
    let law = Law {
        kind: known.kind,
        numbers,
        window: known.window,
        forgotten: &forgotten,
        unseen: 0,
    };
    let excess = most(&law, &charges)?;
    Some(breach(LEFT.name, limit, key, &excess))
}

/// The units that gateways admitted in the new mode before their first exchange.
fn before_the_first_exchange(history: &History, limit: usize, key: u64) -> u64 {
    let changed = || {
        let charges = history.of(limit, key);
        charges.filter(|(_, charge)| charge.changed.is_some())
    };
    let is_early = |request: &Request| {
        let own = changed().filter(|(other, _)| other.gateway == request.gateway);
        let first = own.map(|(other, _)| other.asked.begin).min();
        first.is_some_and(|first| request.asked.begin <= first + history.unseen)
    };
    let early = changed().filter(|(request, _)| request.is_admitted() && is_early(request));
    early.map(|(_, charge)| charge.cost).sum()
}

/// The most units that were lent to gateways that were still in the old mode when the first gateway left it.
fn lent_to_others(history: &History, limit: usize, key: u64) -> u64 {
    let charges = || history.of(limit, key);
    let left = charges().filter(|(_, charge)| charge.changed.is_some());
    let first = left.map(|(request, _)| request.asked.begin).min();
    let first = first.unwrap_or(Micros::MAX);
    let leased = || charges().filter(|(_, charge)| charge.changed.is_none());
    let is_late = |gateway: usize| {
        let mut own = leased().filter(|(request, _)| request.gateway == gateway);
        own.any(|(request, _)| request.asked.end >= first)
    };
    let late = leased().filter(|(request, _)| is_late(request.gateway));
    late.map(|(_, charge)| charge.cost).sum()
}
