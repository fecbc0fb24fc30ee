//! The properties of the model: conditions that every state meets, and events that some state must show.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const LIMITED: &str = "no more requests run, whose holds were not lost, than the limit";
const ONCE: &str = "a request whose hold was not lost is charged what it came to, once";
const NOT_LESS: &str = "a request that has ended is charged, or held, unless its data was lost";
const GONE: &str = "what has ended is not held again";
const OWN: &str = "a gateway never takes the place of its own request";

pub(super) fn properties() -> Vec<Property<Holds>> {
    vec![
        Property::always(LIMITED, |model: &Holds, state: &State| {
            (0..2).all(|slot| {
                let held = state.held.iter().zip(model.requests);
                let running = held.filter(|(held, slots)| {
                    held.is_running() && !held.is_doubtful && slots.contains(&slot)
                });
                running.count() <= usize::from(LIMIT)
            })
        }),
        Property::always(ONCE, |model: &Holds, state: &State| {
            let mut held = state.held.iter().enumerate();
            held.all(|(request, held)| match held.phase {
                Phase::Ended(used) if !held.is_doubtful => {
                    let mut slots = model.requests[request].iter();
                    slots.all(|slot| {
                        held.charged[*slot] == if held.is_ended[*slot] { used } else { 0 }
                    })
                }
                _ => true,
            })
        }),
        Property::always(NOT_LESS, |model: &Holds, state: &State| {
            let mut held = state.held.iter().enumerate();
            !model.charges
                || model.losses
                || held.all(|(request, held)| match held.phase {
                    Phase::Ended(used) if used > 0 => {
                        let mut slots = model.requests[request].iter();
                        slots.all(|slot| held.charged[*slot] > 0 || held.lapse[*slot].is_some())
                    }
                    _ => true,
                })
        }),
        Property::always(GONE, |model: &Holds, state: &State| {
            let mut held = state.held.iter().enumerate();
            !held.any(|(request, held)| {
                let mut slots = model.requests[request].iter();
                matches!(held.phase, Phase::Ended(_) | Phase::Over)
                    && slots.any(|slot| held.is_ended[*slot] && held.lapse[*slot].is_some())
            })
        }),
        Property::always(OWN, |model: &Holds, state: &State| {
            let running = state.held.iter().filter(|held| held.is_running());
            model.charges || running.count() <= usize::from(LIMIT)
        }),
        Property::sometimes("a request is refused", |_, state: &State| {
            state.network.has(|it| matches!(it, Message::Refused(_)))
        }),
        Property::sometimes(
            "a hold lapses while its request runs",
            |_, state: &State| {
                let mut held = state.held.iter();
                held.any(|held| held.phase == Phase::Held && held.lapse.contains(&Some(0)))
            },
        ),
    ]
}

const TWO: Holds = Holds {
    protocol: Protocol::Now,
    requests: &[&[0], &[0]],
    charges: true,
    losses: false,
    crashes: false,
};

#[test]
fn an_end_that_does_not_look_for_its_hold_charges_twice() {
    let protocol = Protocol::Unnamed;
    fails(Holds { protocol, ..TWO }, ONCE);
}

#[test]
fn a_late_renewal_takes_again_what_has_ended() {
    let protocol = Protocol::NoDeadline;
    fails(Holds { protocol, ..TWO }, GONE);
}

#[test]
fn a_cost_whose_hold_lapses_must_be_charged() {
    let protocol = Protocol::Freed;
    fails(Holds { protocol, ..TWO }, NOT_LESS);
}

#[test]
fn each_request_is_charged_once_and_never_more_than_the_limit() {
    holds(TWO, 1_000);
    let (losses, crashes) = (true, true);
    holds(
        Holds {
            losses,
            crashes,
            ..TWO
        },
        1_000,
    );
}

/// Two running requests under `concurrency`.
const RUNNING: Holds = Holds {
    charges: false,
    losses: true,
    crashes: true,
    ..TWO
};

#[test]
fn running_requests_are_counted() {
    holds(RUNNING, 1_000);
}

#[test]
fn a_gateway_that_does_not_confirm_takes_the_place_of_its_own_request() {
    let protocol = Protocol::Unconfirmed;
    fails(
        Holds {
            protocol,
            ..RUNNING
        },
        OWN,
    );
}

#[test]
fn several_slots_are_one_decision() {
    let model = Holds {
        requests: &[&[0, 1], &[1]],
        ..TWO
    };
    holds(model, 1_000);
}
