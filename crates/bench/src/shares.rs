//! The cost of a decision and of a request at a bucket that its members share, with `share` and without it.

use std::hint::black_box;
use std::sync::Arc;

use tidegate_core::{Rate, TokenBucket};
use tidegate_store::{Charge, Key, Limit, MemoryStore, OnFailure};
use tidegate_tower::{Overrides, Per, Rule};

use crate::request::send;
use crate::table::{Figure, Operation, Row, Table};

/// The number of members, which send their requests in turn.
const MEMBERS: u64 = 100;
/// The capacity of the bucket, and the units that it refills in a second.
const CAPACITY: u64 = 100;
const SECOND: u64 = 1_000_000;
/// The time at which the requests begin, in us since the epoch.
const START: u64 = 1_700_000_000_000_000;

pub(crate) fn decisions() -> Table {
    let row = |name: &str, rate| Row {
        name: name.into(),
        figures: [false, true]
            .map(|is_divided| Figure::of(move || decide(rate, is_divided)))
            .into(),
    };
    Table {
        title: "a decision of the memory store about a shared bucket",
        columns: vec!["the bucket alone".into(), "with `share`".into()],
        rows: vec![
            row("more than half is left", CAPACITY / 2),
            row("ten times what it refills", 10 * CAPACITY),
        ],
        is_of_routes: false,
    }
}

pub(crate) fn requests() -> Table {
    let row = |name: &str, count| Row {
        name: name.into(),
        figures: [false, true]
            .map(|is_divided| Figure::of(move || request(count, is_divided)))
            .into(),
    };
    Table {
        title: "a request under a shared bucket",
        columns: vec!["the bucket alone".into(), "with `share`".into()],
        rows: vec![
            row("more than half is left", 1_000_000),
            row("members ask for more than it refills", 1_000),
        ],
        is_of_routes: false,
    }
}

/// Returns an operation that sends a request of the next member through the limit layer. `count` is the capacity of the bucket, and the
/// number of units that it refills in an hour.
fn request(count: u64, is_divided: bool) -> Operation {
    let per = 3_600 * SECOND;
    let quota = TokenBucket::new(count, Rate { count, per });
    let limit = Limit::new(
        "shared",
        quota.expect("these numbers fit"),
        OnFailure::Local,
    );
    let bucket = Rule::new(limit, []);
    let share = bucket.share_of_members([Per::Client], &[]);
    let share = share.expect("these numbers fit");
    let mut rules = vec![bucket];
    rules.extend(is_divided.then_some(share));
    let users = (0..MEMBERS).map(|at| format!("user-{at}").parse().expect("a header"));
    send(rules, Overrides::default(), users.collect())
}

/// Returns an operation that decides one request of the next member. `rate` is the number of requests in a second.
fn decide(rate: u64, is_divided: bool) -> Operation {
    let store = MemoryStore::default();
    let refill = Rate {
        count: CAPACITY,
        per: SECOND,
    };
    let quota = TokenBucket::new(CAPACITY, refill).expect("these numbers fit");
    let limit = Arc::new(Limit::new("shared", quota, OnFailure::Local));
    let share = Arc::new(limit.share(1).expect("these numbers fit"));
    let mut count = 0;
    Box::new(move || {
        count += 1;
        let member = u128::from(count % MEMBERS + 1) * 0x9e37_79b9_7f4a_7c15_f39c_c060;
        let charge = |limit, rest: u128| Charge {
            limit,
            key: Key {
                tag: [1; 16],
                rest: rest.to_be_bytes(),
            },
            cost: 1,
            origin: None,
        };
        let now = START + count * SECOND / rate;
        let charges = [charge(&limit, 0), charge(&share, member)];
        let decision = store.decide_at(&charges[..1 + usize::from(is_divided)], now);
        black_box(decision);
    })
}
