//! What the model of this protocol must never do, and what it must be able to do.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const NOT_LESS: &str = "no settlement takes back what it did not reserve";
const NOT_MORE: &str = "no settlement charges twice";
const SETTLED: &str = "each settlement is heard of while its charge counts";

pub(super) fn properties() -> Vec<Property<Settlements>> {
    vec![
        Property::always(NOT_LESS, |_, state: &State| state.count >= state.due),
        Property::always(NOT_MORE, |_, state: &State| state.count <= state.due),
        Property::always(SETTLED, |model: &Settlements, state: &State| {
            let is_lost = |(request, of): (Request, &Reservation)| {
                of.phase == Phase::Over
                    && of.counts
                    && of.unheard.is_some()
                    && !state.concerns(request)
            };
            model.crashes || !state.reservations.iter().enumerate().any(is_lost)
        }),
        Property::sometimes("a request is refused", |_, state: &State| {
            state
                .network
                .has(|message| matches!(message, Message::Refused(_)))
        }),
        Property::sometimes("more is used than the limit", |_, state: &State| {
            state.count > LIMIT
        }),
    ]
}

const TWO: Settlements = Settlements {
    protocol: Protocol::Now,
    requests: 2,
    losses: false,
    crashes: false,
};

#[test]
fn a_settlement_that_is_sent_once_is_lost() {
    let protocol = Protocol::Before;
    fails(Settlements { protocol, ..TWO }, SETTLED);
}

#[test]
fn a_settlement_without_a_record_takes_back_what_a_reset_has_forgotten() {
    let (protocol, losses) = (Protocol::Before, true);
    let model = Settlements {
        protocol,
        losses,
        ..TWO
    };
    fails(model, NOT_LESS);
}

#[test]
fn a_settlement_that_is_sent_again_needs_a_record() {
    let protocol = Protocol::SentAgain;
    fails(Settlements { protocol, ..TWO }, NOT_LESS);
    fails(Settlements { protocol, ..TWO }, NOT_MORE);
}

#[test]
fn an_extension_that_adds_a_record_lets_a_settlement_count_twice() {
    let protocol = Protocol::Added;
    fails(Settlements { protocol, ..TWO }, NOT_LESS);
    fails(Settlements { protocol, ..TWO }, NOT_MORE);
}

#[test]
fn each_reservation_is_settled_once() {
    holds(
        Settlements {
            losses: true,
            crashes: true,
            ..TWO
        },
        200_000,
    );
    holds(
        Settlements {
            losses: true,
            ..TWO
        },
        200_000,
    );
}
