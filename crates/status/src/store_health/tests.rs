//! Tests when Redis counts as deciding.

use super::*;

fn second(calls: u64, failures: u64) -> StoreSecond {
    StoreSecond {
        is_up: true,
        calls,
        failures,
        ..StoreSecond::default()
    }
}

fn nodes(lost_nodes: usize, open_nodes: usize, failures: u64) -> StoreSecond {
    StoreSecond {
        lost_nodes,
        open_nodes,
        ..second(100, failures)
    }
}

const LOST: StoreSecond = StoreSecond {
    is_up: false,
    calls: 100,
    failures: 100,
    lost_nodes: 0,
    open_nodes: 0,
};

/// Returns the changes of the state, each with the second in which the state began.
fn changes(seconds: impl IntoIterator<Item = StoreSecond>) -> Vec<(usize, StoreState)> {
    let mut health = StoreHealth::default();
    let mut changes = Vec::new();
    let mut last = StoreState::Deciding;
    for (at, second) in seconds.into_iter().enumerate() {
        let state = health.look(second);
        if state != last {
            changes.push((at, state));
            last = state;
        }
    }
    changes
}

use StoreState::{Deciding, Partial, Silent, Unreachable};

#[test]
fn failures_of_one_second_are_no_news() {
    for calls in [1, 7, 1_000] {
        let seconds = [second(calls, 0), second(calls, calls), second(calls, 0)];
        assert_eq!(changes(seconds.repeat(4)), [], "{calls} calls");
        let idle = [second(0, 0); 20];
        let once = [&idle[..], &[second(calls, calls)], &idle].concat();
        assert_eq!(changes(once), [], "{calls} calls");
    }
}

#[test]
fn most_calls_of_some_seconds_are() {
    let well = [second(100, 0); 9];
    let ill = [second(100, 90); 9];
    // Five seconds later, nine of ten calls of the window succeed.
    let states = changes([&well[..], &ill, &well, &well].concat());
    assert_eq!(states, [(11, Silent), (22, Deciding)]);
    // If half of the calls fail, the state does not change.
    let half = [second(100, 50); 30];
    assert_eq!(changes(half), []);
    let states = changes([&ill[..], &half].concat());
    assert_eq!(states, [(1, Silent)]);
}

#[test]
fn few_calls_are_enough_if_all_fail_and_silence_proves_nothing() {
    let rare = |failures| {
        let mut seconds = vec![second(0, 0); 30];
        seconds.push(second(1, failures));
        seconds
    };
    let states = changes([rare(1).repeat(9), vec![second(0, 0); 300]].concat());
    assert_eq!(states, [(31 * 5 - 1, Silent)]);
    let states = changes([rare(1).repeat(9), rare(0)].concat());
    assert_eq!(states, [(31 * 5 - 1, Silent), (31 * 10 - 1, Deciding)]);
    assert_eq!(changes([rare(1).repeat(4), rare(0)].concat().repeat(3)), []);
}

#[test]
fn what_failed_before_there_was_a_connection_does_not_count() {
    let states = changes([[LOST; 9], [second(100, 1); 9]].concat());
    assert_eq!(states, [(1, Unreachable), (10, Deciding)]);
    let once = [&[second(100, 1); 5][..], &[LOST]].concat();
    assert_eq!(changes(once.repeat(9)), [], "it was connected to again");
}

#[test]
fn a_connection_that_comes_and_goes_without_decisions_is_told_of_once() {
    let fails = second(100, 100);
    for round in [
        vec![fails, LOST],
        vec![fails, fails, LOST],
        vec![LOST, LOST, fails],
        vec![fails, LOST, LOST, fails],
    ] {
        let states = changes(round.repeat(20));
        assert!(!states.is_empty(), "{round:?}");
        assert!(
            states.iter().all(|(_, state)| *state != Deciding),
            "{states:?}"
        );
        assert!(states.len() <= 2, "{states:?}");
    }
    let states = changes([[LOST; 9], [fails; 9]].concat());
    assert_eq!(states, [(1, Unreachable), (10, Silent)]);
}

#[test]
fn nodes_that_fail_are_a_part() {
    let states = changes([[nodes(1, 1, 30); 9], [nodes(0, 0, 0); 9]].concat());
    assert_eq!(states, [(1, Partial), (13, Deciding)]);
    // An open circuit breaker without calls is no failure.
    assert_eq!(changes([nodes(0, 1, 0); 90]), []);
    let states = changes([vec![nodes(0, 1, 30); 9], vec![nodes(0, 1, 0); 90]].concat());
    assert_eq!(states, [(1, Partial), (68, Deciding)]);
    // If all nodes fail, the state is more than `Partial`.
    let states = changes([[nodes(1, 1, 30); 9], [nodes(1, 3, 99); 9]].concat());
    assert_eq!(states, [(1, Partial), (10, Silent)]);
}
