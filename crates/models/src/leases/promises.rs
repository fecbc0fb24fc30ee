//! The properties of the model: conditions that every state meets, and events that some state must show.

use stateright::Property;

use super::*;
use crate::explore::{fails, holds};

const NEVER_MORE: &str = "never more is admitted than the limit";
const ONCE: &str = "what was spent is charged once";
const COVERED: &str = "what may have been spent is charged or out";
const LENT: &str = "what is used and what is out is the limit at most";

pub(super) fn properties() -> Vec<Property<Leases>> {
    vec![
        Property::always(NEVER_MORE, |model: &Leases, state: &State| {
            model.losses || state.admitted <= LIMIT
        }),
        Property::always(ONCE, |_, state: &State| state.used == state.due),
        Property::always(COVERED, |model: &Leases, state: &State| {
            let mut slices = state.slices.iter().zip(&state.records);
            model.losses
                || slices.all(|(slice, record)| {
                    // A lapsed slice was charged completely.
                    let may_be_spent = slice.spent - slice.charged + slice.rest();
                    may_be_spent <= record.map_or(0, |record| record.out)
                })
        }),
        Property::always(LENT, |model: &Leases, state: &State| {
            let out = state.records.iter().flatten().map(|record| record.out);
            model.losses || state.used + out.sum::<u8>() <= LIMIT
        }),
        Property::sometimes("all is admitted", |_, state: &State| {
            state.admitted == LIMIT
        }),
        Property::sometimes("all is settled", |model: &Leases, state: &State| {
            let spent = state.slices.iter().any(|slice| slice.spent > 0);
            let all_returned = state.records.iter().flatten().all(|record| record.out == 0);
            model.losses || spent && state.used == state.admitted && all_returned
        }),
    ]
}

const TWO: Leases = Leases {
    protocol: Protocol::Now,
    gateways: 2,
    calls: 3,
    late: false,
    crashes: false,
    losses: false,
};

#[test]
fn a_slice_that_is_returned_is_charged_twice_with_its_record_gone() {
    let protocol = Protocol::Before;
    fails(Leases { protocol, ..TWO }, ONCE);
}

#[test]
fn what_is_told_anew_is_charged_twice_without_a_record() {
    let (protocol, losses) = (Protocol::Returned, true);
    fails(
        Leases {
            protocol,
            losses,
            ..TWO
        },
        ONCE,
    );
}

#[test]
fn slices_are_charged_once() {
    holds(
        Leases {
            crashes: true,
            ..TWO
        },
        400_000,
    );
}

#[test]
fn a_call_without_a_deadline_is_charged_twice_after_its_slice_has_lapsed() {
    let (gateways, late) = (1, true);
    fails(
        Leases {
            gateways,
            late,
            ..TWO
        },
        ONCE,
    );
}

#[test]
fn what_was_not_settled_is_charged_once_though_redis_loses_its_data() {
    let (gateways, losses) = (1, true);
    holds(
        Leases {
            gateways,
            losses,
            ..TWO
        },
        2_000,
    );
}

#[test]
fn slices_of_three_gateways_are_charged_once() {
    holds(
        Leases {
            gateways: 3,
            calls: 2,
            ..TWO
        },
        700_000,
    );
}
