//! What the model of this protocol must never do, and what it must be able to do.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const NEVER_MORE: &str =
    "no place is given away of a request that Redis was told of within a lease";
const KNOWN: &str = "Redis holds a place for each request that it was told of within a lease";
const GIVEN_BACK: &str = "what is given back is not taken again";
const OWN: &str = "a gateway never takes the place of its own request";

pub(super) fn properties() -> Vec<Property<Places>> {
    vec![
        Property::always(NEVER_MORE, |_, state: &State| !state.is_exceeded),
        Property::always(KNOWN, |_, state: &State| {
            state.places.len() >= state.known()
        }),
        Property::always(GIVEN_BACK, |_, state: &State| {
            let mut given_back = state.places.iter();
            !given_back.any(|place| state.holds[place.id].is_given_back)
        }),
        Property::always(OWN, |model: &Places, state: &State| {
            let is_alone = model.requests.iter().all(|gateway| *gateway == 0);
            let running = state.holds.iter().filter(|hold| hold.is_running()).count();
            !is_alone || running <= model.limit
        }),
        Property::sometimes("a request is refused", |_, state: &State| {
            let is_refusal = |message: &Message| matches!(message, Message::Refused(_));
            state.network.has(is_refusal)
        }),
        Property::sometimes("a place is given back", |_, state: &State| {
            let is_last = |message: &Message| matches!(message, Message::GiveBack(..));
            state.network.has(is_last)
        }),
    ]
}

const TWO: Places = Places {
    protocol: Protocol::Now,
    limit: 1,
    requests: &[0, 1],
    doubles: false,
    losses: false,
    resets: false,
    crashes: false,
};

#[test]
fn places_without_an_id_are_lost_with_an_answer() {
    let protocol = Protocol::Before;
    fails(Places { protocol, ..TWO }, KNOWN);
    fails(Places { protocol, ..TWO }, NEVER_MORE);
}

#[test]
fn places_without_an_id_are_lost_with_data() {
    let model = Places {
        protocol: Protocol::Before,
        resets: true,
        ..TWO
    };
    fails(model, KNOWN);
}

#[test]
fn a_late_renewal_takes_again_what_was_given_back() {
    let model = Places {
        protocol: Protocol::NoDeadline,
        ..TWO
    };
    fails(model, GIVEN_BACK);
}

#[test]
fn places_with_an_id_are_kept() {
    let model = Places {
        doubles: true,
        losses: true,
        resets: true,
        crashes: true,
        ..TWO
    };
    holds(model, 5_000);
}

#[test]
fn places_of_three_requests_are_kept() {
    let requests = &[0, 0, 1];
    let model = Places {
        limit: 2,
        requests,
        ..TWO
    };
    holds(model, 100_000);
}

#[test]
fn a_gateway_never_takes_the_place_of_its_own_request() {
    let model = Places {
        requests: &[0, 0],
        losses: true,
        crashes: true,
        ..TWO
    };
    holds(model, 3_000);
}
