//! The cost of decisions by the memory store.

use std::hint::black_box;
use std::sync::Arc;

use tidegate_core::{
    Concurrency, FixedWindow, LeakyBucket, Quota, QuotaError, Rate, SlidingWindowCounter,
    SlidingWindowLog, TokenBucket,
};
use tidegate_store::{Charge, Key, Limit, MemoryStore, OnFailure};

use crate::table::{Figure, Operation, Row, Table};

/// The number of clients, which send their requests in turn.
const CLIENTS: u64 = 100;
/// The pause between two requests of a client, in us.
const PAUSE: u64 = 1_000_000;
/// The time at which the requests begin, in us since the epoch.
const START: u64 = 1_700_000_000_000_000;
const TEN_SECONDS: u64 = 10_000_000;

pub(crate) fn table() -> Table {
    let rows = [
        ("`token_bucket`", quotas::token_bucket as MakeQuota),
        ("`leaky_bucket`", quotas::leaky_bucket),
        ("`fixed_window`", quotas::fixed_window),
        ("`sliding_window_log`", quotas::sliding_window_log),
        ("`sliding_window_counter`", quotas::sliding_window_counter),
        ("`concurrency`", quotas::concurrency),
    ];
    let row = |(name, quota): (&str, MakeQuota)| Row {
        name: format!("{name}, admitted"),
        figures: figures(quota, 100),
    };
    let refused = Row {
        name: "`token_bucket`, refused".into(),
        figures: figures(quotas::token_bucket, 0),
    };
    Table {
        title: "a decision of the memory store",
        columns: vec!["one limit".into(), "three limits".into()],
        rows: rows.into_iter().map(row).chain([refused]).collect(),
        is_of_routes: false,
    }
}

type MakeQuota = fn(u64) -> Result<Quota, QuotaError>;

fn figures(quota: MakeQuota, capacity: u64) -> Vec<Figure> {
    let figure = |limits| Figure::of(move || decide(quota, capacity, limits));
    vec![figure(1), figure(3)]
}

/// Returns an operation that decides one request of the next client. If `capacity` is 0, the limits have a capacity of 1 and time stands
/// still, so only the first request of each client is admitted.
fn decide(quota: MakeQuota, capacity: u64, limits: usize) -> Operation {
    let store = MemoryStore::default();
    let limit = |at| {
        let quota = quota(capacity.max(1)).expect("these numbers fit");
        Arc::new(Limit::new(format!("limit-{at}"), quota, OnFailure::Local))
    };
    let limits: Vec<_> = (0..limits).map(limit).collect();
    let refused = capacity == 0;
    let mut count = 0;
    Box::new(move || {
        count += 1;
        let client = count % CLIENTS;
        let key = Key {
            tag: (u128::from(client) * 0x9e37_79b9_7f4a_7c15_f39c_c060).to_be_bytes(),
            rest: [0; 16],
        };
        let charge = |limit| Charge {
            limit,
            key,
            cost: 1,
            origin: None,
        };
        let now = START + if refused { 0 } else { count * PAUSE / CLIENTS };
        let decision = match &limits[..] {
            [limit] => store.decide_at(&[charge(limit)], now),
            [a, b, c, ..] => store.decide_at(&[charge(a), charge(b), charge(c)], now),
            _ => return,
        };
        black_box(decision);
    })
}

/// A quota of each algorithm, with the given number and a period of ten seconds.
mod quotas {
    use super::*;

    fn rate(count: u64) -> Rate {
        Rate {
            count,
            per: TEN_SECONDS,
        }
    }

    pub(super) fn token_bucket(capacity: u64) -> Result<Quota, QuotaError> {
        TokenBucket::new(capacity, rate(capacity)).map(Quota::from)
    }

    pub(super) fn leaky_bucket(capacity: u64) -> Result<Quota, QuotaError> {
        LeakyBucket::new(capacity, rate(capacity)).map(Quota::from)
    }

    pub(super) fn fixed_window(limit: u64) -> Result<Quota, QuotaError> {
        FixedWindow::new(limit, TEN_SECONDS).map(Quota::from)
    }

    pub(super) fn sliding_window_log(limit: u64) -> Result<Quota, QuotaError> {
        SlidingWindowLog::new(limit, TEN_SECONDS).map(Quota::from)
    }

    pub(super) fn sliding_window_counter(limit: u64) -> Result<Quota, QuotaError> {
        SlidingWindowCounter::new(limit, TEN_SECONDS).map(Quota::from)
    }

    pub(super) fn concurrency(limit: u64) -> Result<Quota, QuotaError> {
        Concurrency::new(limit, TEN_SECONDS).map(Quota::from)
    }
}
