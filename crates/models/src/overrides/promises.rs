//! The promises of this protocol, the events that the model must reach, and the counterexamples to other protocols.

use stateright::Property;

use super::state::{Answer, Entry};
use super::*;
use crate::explore::{fails, holds};

const REFUSED: &str = "a change that is answered 503 is not made after its answer";
const ORDER: &str = "a change that is answered 503 replaces none that was made after its answer";
const ANSWERED: &str =
    "a gateway that received the answer of a change has no earlier one in its table";
const KEPT: &str = "no override is in force on a gateway that has read a later change";
const ENDS: &str =
    "after two reads, no override is in force if a running gateway has read a later change";
const AGREE: &str = "after two reads, Redis and all gateways hold the same entries";

/// Returns the state after each gateway has read twice, without any other event.
fn after_two_reads(model: &Overrides, state: &State, order: [usize; GATEWAYS]) -> State {
    let mut after = state.clone();
    for index in order {
        model.give_back(&mut after, index);
        model.settle(&mut after);
    }
    for index in order.repeat(2) {
        model.read(&mut after, index);
        model.give_back(&mut after, index);
        model.settle(&mut after);
    }
    after
}

fn after_any_two_reads(model: &Overrides, state: &State, holds: impl Fn(&State) -> bool) -> bool {
    let orders = [[0, 1], [1, 0]];
    orders
        .into_iter()
        .all(|order| holds(&after_two_reads(model, state, order)))
}

impl Overrides {
    /// Whether later changes have higher versions, even after a loss.
    const fn keeps_order(&self) -> bool {
        self.steps == 0 || self.losses == 0
    }

    /// Whether every entry in force is at least as late as the latest change that was read.
    fn are_latest(&self, entries: &[Option<Entry>], read: &[Option<Entry>], state: &State) -> bool {
        entries.iter().zip(read).all(|(entry, read)| {
            let in_force = entry.filter(|entry| entry.is_in_force(state.now));
            // After Redis has lost data, the entries may lack a change that is old enough to be dropped, so such a change is not compared.
            let latest = read.filter(|read| self.losses == 0 || !read.is_old(state.now, self.keep));
            in_force.is_none_or(|entry| Some(entry.made) >= latest.map(|read| read.made))
        })
    }
}

/// Returns the latest change to each name that a running gateway has read.
fn latest_read(state: &State) -> [Option<Entry>; NAMES] {
    std::array::from_fn(|name| {
        let read = state.gateways.iter().filter_map(|it| it.seen[name]);
        read.max_by_key(|entry| entry.made)
    })
}

pub(super) fn properties() -> Vec<Property<Overrides>> {
    vec![
        Property::always(REFUSED, |model: &Overrides, state: &State| {
            model.steps > 0 || !state.is_made_after_refusal
        }),
        Property::always(ORDER, |model: &Overrides, state: &State| {
            model.steps > 0 || !state.replaces_later
        }),
        Property::always(ANSWERED, |_, state: &State| !state.is_answered_in_vain),
        Property::always(KEPT, |model: &Overrides, state: &State| {
            let mut gateways = state.gateways.iter();
            !model.keeps_order() || gateways.all(|it| model.are_latest(&it.table, &it.seen, state))
        }),
        Property::always(ENDS, |model: &Overrides, state: &State| {
            let read = latest_read(state);
            !model.keeps_order()
                || after_any_two_reads(model, state, |after| {
                    let tables = after.gateways.iter().map(|it| &it.table);
                    let mut all = tables.chain([&after.redis.entries]);
                    all.all(|entries| model.are_latest(entries, &read, after))
                })
        }),
        Property::always(AGREE, |model: &Overrides, state: &State| {
            after_any_two_reads(model, state, |after| {
                // Redis or a gateway may have dropped an old entry, so old entries are left out.
                let held = |entries: [Option<Entry>; NAMES]| {
                    entries.map(|it| it.filter(|it| !it.is_old(after.now, model.keep)))
                };
                let redis = held(after.redis.entries);
                after.gateways.iter().all(|it| held(it.table) == redis)
            })
        }),
        Property::sometimes(
            "a gateway gives entries back",
            |model: &Overrides, state: &State| {
                let gives = |it: &Gateway| model.gives(it, state.now).any(|gives| gives);
                model.losses == 0 || state.gateways.iter().any(gives)
            },
        ),
        Property::sometimes(
            "a change is too late",
            |model: &Overrides, state: &State| {
                let mut pending = state.gateways.iter().filter_map(|it| it.pending);
                model.end == 0 || pending.any(|pending| pending.answer == Some(Answer::Late))
            },
        ),
        Property::sometimes(
            "a gateway drops what Redis has dropped",
            |model: &Overrides, state: &State| {
                model.keep > model.end
                    || state.gateways.iter().any(|it| {
                        it.table.iter().zip(&it.seen).any(|(entry, read)| {
                            entry.is_none() && read.is_some_and(|read| read.is_in_force(state.now))
                        })
                    })
            },
        ),
    ]
}

/// One name. Entries are kept for longer than the model runs.
const ONE: Overrides = Overrides {
    protocol: Protocol::Table,
    names: 1,
    changes: 2,
    end: 1,
    keep: 9,
    losses: 1,
    crashes: false,
    steps: 0,
    reconnects: true,
};

const TWO: Overrides = Overrides { names: 2, ..ONE };

/// Two names. No tick passes.
const AT_ONCE: Overrides = Overrides { end: 0, ..TWO };

/// Entries are dropped one tick after their end, and Redis keeps its data.
const AGEING: Overrides = Overrides {
    end: 2,
    keep: 1,
    losses: 0,
    ..ONE
};

const OLD: Overrides = Overrides {
    protocol: Protocol::Old,
    losses: 0,
    ..ONE
};

fn without(part: Part, model: Overrides) -> Overrides {
    let protocol = Protocol::Without(part);
    Overrides { protocol, ..model }
}

#[test]
fn the_old_protocol_brings_a_replaced_override_back() {
    // A gateway was paused, and never reads the change.
    let (changes, reconnects) = (1, false);
    fails(
        Overrides {
            changes,
            reconnects,
            ..OLD
        },
        ENDS,
    );
    // A gateway was cut off, and restores the replaced override.
    fails(Overrides { changes, ..OLD }, KEPT);
    // A replica that lacks the change takes over.
    let losses = 1;
    fails(
        Overrides {
            changes,
            reconnects,
            losses,
            ..OLD
        },
        KEPT,
    );
}

#[test]
fn the_old_protocol_makes_a_change_after_it_was_refused() {
    fails(OLD, REFUSED);
    fails(OLD, ORDER);
}

#[test]
fn a_change_has_a_deadline_by_a_clock_that_is_not_ahead() {
    for part in [Part::Deadline, Part::LowerBound] {
        fails(without(part, Overrides { losses: 0, ..ONE }), ORDER);
    }
}

#[test]
fn entries_that_are_over_are_kept() {
    let model = Overrides {
        changes: 1,
        ..AGEING
    };
    for part in [Part::Memory, Part::Floor, Part::FloorCompares] {
        fails(without(part, model), ENDS);
    }
}

#[test]
fn a_gateway_that_may_lack_entries_compares_all() {
    let parts = [
        Part::Generation,
        Part::FreshGeneration,
        Part::FirstGeneration,
        Part::Connection,
        Part::ReadVersion,
        Part::OneCall,
    ];
    for part in parts {
        fails(without(part, AT_ONCE), AGREE);
    }
}

#[test]
fn versions_rise_although_the_clock_is_set_back() {
    let set_back = Overrides {
        steps: 1,
        ..AT_ONCE
    };
    let one = Overrides {
        names: 1,
        ..set_back
    };
    fails(without(Part::WriterVersion, one), ANSWERED);
    fails(without(Part::WholeVersions, set_back), AGREE);
    holds(set_back, 500_000);
    let model = Overrides {
        steps: 1,
        losses: 0,
        ..ONE
    };
    holds(model, 30_000);
}

#[test]
fn the_table_is_the_same_everywhere() {
    let model = Overrides {
        crashes: true,
        ..ONE
    };
    holds(model, 400_000);
    holds(Overrides { end: 2, ..ONE }, 400_000);
    holds(TWO, 700_000);
}

#[test]
fn an_old_entry_is_dropped_and_no_earlier_one_comes_back() {
    holds(AGEING, 30_000);
}
