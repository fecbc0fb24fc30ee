//! The cost of a decision about a bucket that its members share, with `share` and without it.

use std::hint::black_box;
use std::sync::Arc;

use tidegate_core::{Rate, TokenBucket};
use tidegate_store::{Charge, Key, Limit, MemoryStore, OnFailure};

use crate::table::{Figure, Operation, Row, Table};

/// The number of members, which send their requests in turn.
const MEMBERS: u64 = 100;
/// The capacity of the bucket, and the units that it refills in a second.
const CAPACITY: u64 = 100;
const SECOND: u64 = 1_000_000;
/// The time at which the requests begin, in us since the epoch.
const START: u64 = 1_700_000_000_000_000;

pub(crate) fn table() -> Table {
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
