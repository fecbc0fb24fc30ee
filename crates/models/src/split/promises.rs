//! What the model of this protocol must never do, and what it must be able to do.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const EXACT: &str = "a key counts what was charged and not given back";
const LIMITED: &str = "no key counts more than its limit";
const GIVEN_BACK: &str = "nothing stays charged of a refused request, if no message is lost";

pub(super) fn properties() -> Vec<Property<Split>> {
    vec![
        Property::always(EXACT, |_, state: &State| {
            (0..3).all(|key| {
                let charged = state.charged.iter().filter(|charged| charged[key]);
                usize::from(state.counts[key]) == charged.count()
            })
        }),
        Property::always(LIMITED, |_, state: &State| {
            state
                .counts
                .iter()
                .zip(LIMITS)
                .all(|(count, limit)| *count <= limit)
        }),
        Property::always(GIVEN_BACK, |model: &Split, state: &State| {
            let requests = state.phases.iter().zip(&state.charged);
            let mut refused = requests.filter(|(phase, _)| **phase == Phase::Refused);
            model.losses
                || state.network.count(|_| true) > 0
                || refused.all(|(_, charged)| *charged == [false; 3])
        }),
        Property::sometimes("a charge is given back", |_, state: &State| {
            state
                .network
                .has(|message| matches!(message, Message::GiveBack(_, 0, true)))
        }),
        Property::sometimes("all of the shared limit is admitted", |_, state: &State| {
            let admitted = state
                .phases
                .iter()
                .filter(|phase| **phase == Phase::Admitted);
            state.counts[0] == LIMITS[0] && admitted.count() == 2
        }),
    ]
}

const THREE: Split = Split {
    requests: &[0, 0, 1],
    losses: false,
    doubles: false,
};

#[test]
fn what_is_refused_is_given_back() {
    holds(THREE, 3_000);
}

#[test]
fn what_is_lost_stays_charged_and_is_never_given_back_for_another() {
    holds(
        Split {
            losses: true,
            ..THREE
        },
        10_000,
    );
    holds(
        Split {
            losses: true,
            requests: &[0, 0, 1, 1],
            ..THREE
        },
        200_000,
    );
}

#[test]
fn a_give_back_that_ran_twice_would_take_back_what_another_request_used() {
    fails(
        Split {
            doubles: true,
            ..THREE
        },
        EXACT,
    );
}
