//! Ends of holds at given times: what an end changes is kept for as long as it counts.

use tidegate_core::{
    Calendar, CalendarWindow, FixedWindow, HoldId, Quota, Rate, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket,
};

use super::*;
use crate::{Key, Limit, OnFailure, Outcome};

const SECOND: Micros = 1_000_000;
const LEASE: Micros = 10 * SECOND;

/// The start of a window of 100 s.
const START: Micros = 1_700_000_000 * SECOND;

fn reserving(quota: impl Into<Quota>) -> Limit {
    Limit::new("limit", quota, OnFailure::Closed).reserving(LEASE)
}

fn charge(limit: &Limit, client: u8, cost: u64) -> Charge<'_> {
    let key = Key {
        tag: [client; 16],
        rest: [0; 16],
    };
    Charge {
        limit,
        key,
        cost,
        origin: None,
    }
}

/// 1,000 in 100 s, under every algorithm that reserves; the bucket is refilled at 1 a second.
fn limits() -> [Limit; 5] {
    let window = 100 * SECOND;
    let rate = Rate {
        count: 1,
        per: SECOND,
    };
    let starts: Vec<Micros> = (0..40).map(|nth| START + nth * window).collect();
    let calendar = Box::leak(Box::new(Calendar::new("hundreds", starts).unwrap()));
    [
        reserving(TokenBucket::new(1_000, rate).unwrap()),
        reserving(FixedWindow::new(1_000, window).unwrap()),
        reserving(SlidingWindowLog::new(1_000, window).unwrap()),
        reserving(SlidingWindowCounter::new(1_000, window).unwrap()),
        reserving(CalendarWindow::new(1_000, calendar).unwrap()),
    ]
}

/// Asks for `cost` at `now`; the hold, if it was admitted.
fn ask(store: &MemoryStore, limit: &Limit, client: u8, cost: u64, now: Micros) -> Option<HoldId> {
    let decision = store.decide_at(&[charge(limit, client, cost)], now);
    let admitted = decision.outcome == Outcome::Admitted;
    admitted.then(|| decision.sources[0].hold)
}

/// Asks for 5 at `from`, which come to `cost` at `until`.
fn spend(store: &MemoryStore, limit: &Limit, cost: u64, [from, until]: [Micros; 2]) {
    let reserved = ask(store, limit, 1, 5, from).unwrap();
    settle(store, limit, reserved, until, cost);
}

/// A hold of 5 ends at `now`: its request has come to `used`.
fn settle(store: &MemoryStore, limit: &Limit, hold: HoldId, now: Micros, used: u64) {
    let charge = charge(limit, 1, 5);
    store.table.end(&charge, limit.quota(), hold, used, now);
}

/// Whether 50 fit at `now`, when all that has expired is dropped.
fn has_room(store: &MemoryStore, limit: &Limit, now: Micros) -> bool {
    store.sweep_at(now);
    let decision = store.decide_at(&[charge(limit, 1, 50)], now);
    decision.outcome == Outcome::Admitted
}

/// The bucket of the review: 5 are reserved, 1,000 are told, and 11 s later 50 do not fit.
#[test]
fn a_debt_outlives_what_was_reserved() {
    for limit in limits() {
        for after in [2, 11, 30, 49] {
            let store = MemoryStore::default();
            let now = START + SECOND;
            spend(&store, &limit, 1_000, [now, now + SECOND]);
            let kind = limit.quota().algorithm();
            assert!(!has_room(&store, &limit, now + after * SECOND), "{kind}");
        }
    }
}

/// Reserved in one window and settled in the next: what it came to beyond what was reserved counts there, to its end.
#[test]
fn what_is_settled_after_the_window_turned_counts_until_the_next_turn() {
    for limit in limits() {
        for (after, admitted) in [
            (2, false),
            (15, false),
            (50, false),
            (99, false),
            (300, true),
        ] {
            let store = MemoryStore::default();
            let turn = START + 100 * SECOND;
            spend(&store, &limit, 1_100, [turn - SECOND, turn + SECOND]);
            let kind = limit.quota().algorithm();
            let now = turn + after * SECOND;
            assert_eq!(has_room(&store, &limit, now), admitted, "{kind}, {after} s");
        }
    }
}

/// Newcomers do not take the place of a key under which a request holds units, however few.
#[test]
fn a_key_with_a_hold_keeps_its_place() {
    for limit in limits() {
        let store = MemoryStore::new(8);
        let now = START + SECOND;
        let reserved = ask(&store, &limit, 1, 5, now).unwrap();
        for client in 10..110 {
            ask(&store, &limit, client, 100, now);
        }
        settle(&store, &limit, reserved, now, 1_100);
        let kind = limit.quota().algorithm();
        assert!(!has_room(&store, &limit, now + SECOND), "{kind}");
    }
}

/// A key that owes is not flushed for newcomers.
#[test]
fn a_key_that_owes_keeps_its_place() {
    for limit in limits() {
        let store = MemoryStore::new(8);
        let now = START + SECOND;
        spend(&store, &limit, 2_000, [now, now]);
        for client in 10..110 {
            ask(&store, &limit, client, 100, now);
        }
        let kind = limit.quota().algorithm();
        assert!(!has_room(&store, &limit, now + SECOND), "{kind}");
    }
}

/// A hold that a reset dropped, and that no renewal took again: its end changes nothing.
#[test]
fn an_end_without_a_hold_changes_nothing() {
    for limit in limits() {
        for used in [0, 5, 1_100] {
            let store = MemoryStore::default();
            let now = START + SECOND;
            let reserved = ask(&store, &limit, 1, 5, now).unwrap();
            store.reset(&[charge(&limit, 1, 1)]);
            ask(&store, &limit, 1, 600, now).unwrap();
            settle(&store, &limit, reserved, now, used);
            let kind = limit.quota().algorithm();
            assert!(ask(&store, &limit, 1, 401, now).is_none(), "{kind}, {used}");
            assert!(ask(&store, &limit, 1, 400, now).is_some(), "{kind}, {used}");
        }
    }
}

/// A key that lost its place, and has one again, is given nothing that is not its own.
#[test]
fn a_key_that_lost_its_place_is_given_nothing_back() {
    for limit in limits() {
        let store = MemoryStore::new(8);
        let now = START + SECOND;
        let reserved = ask(&store, &limit, 1, 5, now).unwrap();
        for client in 10..110 {
            ask(&store, &limit, client, 100, now);
        }
        // Its new place takes that of another one, which has expired.
        let later = now + 99 * SECOND;
        store.sweep_at(later + 1_000 * SECOND);
        let used = ask(&store, &limit, 1, 1_000, later);
        assert!(used.is_some());
        settle(&store, &limit, reserved, later, 0);
        let kind = limit.quota().algorithm();
        assert!(ask(&store, &limit, 1, 1, later).is_none(), "{kind}");
    }
}

/// A request that another plan's numbers refuse moves no expiry.
#[test]
fn a_refusal_by_other_numbers_shortens_nothing() {
    let bucket = |capacity, count| {
        let rate = Rate { count, per: SECOND };
        Limit::new(
            "limit",
            TokenBucket::new(capacity, rate).unwrap(),
            OnFailure::Closed,
        )
    };
    let (slow, fast) = (bucket(100, 1), bucket(10, 999_983));
    let store = MemoryStore::default();
    assert!(ask(&store, &slow, 1, 100, START).is_some());
    assert!(ask(&store, &fast, 1, 10, START).is_none());
    store.sweep_at(START + SECOND);
    assert!(ask(&store, &slow, 1, 50, START + SECOND).is_none());
}
