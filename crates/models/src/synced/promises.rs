//! The properties of the model: conditions that every state meets, and events that some state must show.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const NOT_TWICE: &str = "Redis never counts more than was counted";
const ALL: &str = "when all was told and heard, Redis counts all";
const BOUND: &str = "all gateways admit the limit once each at most";
const OTHERS: &str = "no gateway takes others to have counted more than they have";

/// Returns the count of all gateways in a window.
fn sum_own(model: &Synced, state: &State, window: u8) -> i8 {
    (0..model.gateways).map(|id| state.own(id, window)).sum()
}

pub(super) fn properties() -> Vec<Property<Synced>> {
    vec![
        Property::always(NOT_TWICE, |model: &Synced, state: &State| {
            let window = state.window;
            state.state.current <= sum_own(model, state, window)
                && (window == 0
                    || !state.gateways.iter().all(|it| it.own.start == window)
                    || state.state.previous <= sum_own(model, state, window - 1))
        }),
        Property::always(ALL, |model: &Synced, state: &State| {
            let are_in_step = state.gateways.iter().all(|gateway| {
                gateway.own.start == state.window
                    && gateway.is_told()
                    && gateway.has_heard == state.is_lost
            });
            let current = sum_own(model, state, state.window);
            let previous = if state.window == 0 {
                0
            } else {
                sum_own(model, state, state.window - 1)
            };
            !are_in_step || (state.state.current == current && state.state.previous == previous)
        }),
        Property::always(BOUND, |model: &Synced, state: &State| {
            let gateways = i8::try_from(model.gateways).unwrap_or(i8::MAX);
            sum_own(model, state, state.window) <= gateways * model.limit
        }),
        Property::always(OTHERS, |model: &Synced, state: &State| {
            (0..model.gateways).all(|id| {
                let gateway = state.gateways[id];
                let others = (0..model.gateways).filter(|other| *other != id);
                let own: i8 = others
                    .map(|other| state.own(other, gateway.own.start))
                    .sum();
                let is_near = |other: &Gateway| other.own.start <= gateway.own.start + 1;
                !state.gateways.iter().all(is_near) || gateway.others.current <= own
            })
        }),
        Property::sometimes(
            "more is admitted than the limit",
            |model: &Synced, state: &State| state.state.current > model.limit,
        ),
        Property::sometimes(
            "what was counted before a turn is told",
            |model: &Synced, state: &State| model.turns == 0 || state.state.previous > 0,
        ),
    ]
}

const TWO: Synced = Synced {
    protocol: Protocol::Now,
    gateways: 2,
    limit: 2,
    calls: 2,
    turns: 1,
    doubles: false,
    losses: false,
};

#[test]
fn differences_would_be_added_twice_when_a_call_is_told_again() {
    let protocol = Protocol::Differences;
    fails(Synced { protocol, ..TWO }, NOT_TWICE);
}

#[test]
fn sums_are_added_once() {
    let (limit, doubles) = (1, true);
    let model = Synced {
        limit,
        doubles,
        ..TWO
    };
    holds(model, 150_000);
}

#[test]
fn sums_are_told_again_to_a_redis_that_has_lost_them() {
    let (limit, calls, turns, losses) = (1, 3, 0, true);
    let model = Synced {
        limit,
        calls,
        turns,
        losses,
        ..TWO
    };
    holds(model, 150_000);
}

#[test]
fn sums_of_three_gateways_are_added_once() {
    let (gateways, limit, turns) = (3, 1, 0);
    let model = Synced {
        gateways,
        limit,
        turns,
        ..TWO
    };
    holds(model, 300_000);
}
