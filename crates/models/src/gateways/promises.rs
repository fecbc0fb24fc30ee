//! The properties of the model: conditions that every state meets, and events that some state must show.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const COUNTED: &str =
    "a gateway counts every other that it was told of, unless that is silent for a lapse";
const SHARES: &str = "the shares of gateways that were told of each other are the limit at most";

pub(super) fn properties() -> Vec<Property<Fleet>> {
    vec![
        Property::always(COUNTED, |_, state: &State| {
            let mut gateways = state.gateways.iter().flatten();
            gateways.all(|gateway| {
                let others = gateway.knows.iter().filter(|knows| **knows).count();
                usize::from(gateway.count) > others
            })
        }),
        Property::always(SHARES, |_, state: &State| {
            let gateways = || state.gateways.iter().flatten();
            let alive = gateways().count();
            let knows_all = |gateway: &Gateway| {
                gateway.knows.iter().filter(|knows| **knows).count() + 1 == alive
            };
            // Shares are counted in twelfths of a limit, so that a half and a third are whole numbers.
            let shares: u32 = gateways()
                .map(|gateway| 12 / u32::from(gateway.count))
                .sum();
            !gateways().all(knows_all) || shares <= 12
        }),
        Property::sometimes("a lower count applies", |_, state: &State| {
            let mut gateways = state.gateways.iter().flatten();
            state.silent.contains(&LAPSE)
                && gateways.any(|gateway| gateway.count == 1 && gateway.last.is_some())
        }),
        Property::sometimes("all are counted", |model: &Fleet, state: &State| {
            let gateways = state.gateways.iter().flatten();
            gateways
                .filter(|gateway| usize::from(gateway.count) == model.gateways)
                .count()
                == model.gateways
        }),
    ]
}

const TWO: Fleet = Fleet {
    protocol: Protocol::Now,
    gateways: 2,
    pauses: false,
    crashes: false,
};

#[test]
fn the_last_count_is_too_low_when_redis_was_away() {
    let protocol = Protocol::Before;
    fails(Fleet { protocol, ..TWO }, COUNTED);
    fails(Fleet { protocol, ..TWO }, SHARES);
}

#[test]
fn a_gateway_that_pauses_sees_a_round_in_which_nobody_could_be_heard() {
    let model = Fleet {
        protocol: Protocol::AnyRound,
        pauses: true,
        ..TWO
    };
    fails(model, COUNTED);
}

#[test]
fn a_lower_count_waits_for_a_whole_round() {
    let crashes = true;
    holds(Fleet { crashes, ..TWO }, 50_000);
    let pauses = true;
    holds(
        Fleet {
            crashes,
            pauses,
            ..TWO
        },
        50_000,
    );
}
