//! Settlements that wait: whose turn it is, and which one goes.

use std::sync::Arc;

use tidegate_core::{FixedWindow, HoldId};

use super::super::hold::{Home, State};
use super::*;
use crate::{Key, Limit, OnFailure};

fn settlement(cost: u64, until: Instant) -> Settlement {
    let quota = FixedWindow::new(1, 1).unwrap();
    let limit = Arc::new(Limit::new("it", quota, OnFailure::Closed));
    let key = Key {
        tag: [0; 16],
        rest: [0; 16],
    };
    let hold = Hold {
        limit,
        key,
        cost,
        home: Home::Redis,
        id: HoldId(cost),
        lapse: 0,
        renewed: None,
        connection: 0,
        may_be_there: true,
        copy: None,
        state: State::Held,
        kept_until: None,
    };
    Settlement::new(hold, 0, until.saturating_duration_since(Instant::now()))
}

fn costs(taken: &[Settlement]) -> Vec<u64> {
    taken.iter().map(|taken| taken.hold.cost).collect()
}

#[test]
fn each_has_its_turn() {
    let unanswered = Unanswered::default();
    let start = Instant::now() + Duration::from_secs(100);
    for cost in 1..=5 {
        unanswered.add(settlement(cost, start + Duration::from_secs(cost)));
    }
    unanswered.add(settlement(9, Instant::now()));
    let mut turns = Vec::new();
    for _ in 0..4 {
        let taken = unanswered.take(2);
        turns.push(costs(&taken));
        assert_eq!(unanswered.count(), 5, "none has its answer");
        taken.into_iter().for_each(|taken| unanswered.add(taken));
    }
    assert_eq!(turns, [[1, 2], [3, 4], [5, 1], [2, 3]]);
    assert_eq!((unanswered.count(), unanswered.dropped()), (5, 0));
    unanswered
        .take(4)
        .iter()
        .for_each(|taken| unanswered.end(taken));
    assert_eq!(unanswered.count(), 1);
}

#[test]
fn of_too_many_the_one_goes_that_matters_for_the_shortest_time() {
    let unanswered = Unanswered::default();
    let start = Instant::now() + Duration::from_secs(1_000);
    for cost in 0..MOST as u64 {
        unanswered.add(settlement(cost, start + Duration::from_secs(cost)));
    }
    unanswered.add(settlement(1_234_567, start + Duration::from_secs(50)));
    assert_eq!((unanswered.count(), unanswered.dropped()), (MOST, 1));
    assert_eq!(costs(&unanswered.take(1)), [1]);
}
