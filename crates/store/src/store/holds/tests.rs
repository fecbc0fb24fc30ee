//! Gateways whose clocks are wrong: what they reserved is settled by Redis's clock.

use std::time::Duration;

use tidegate_core::{Calendar, CalendarWindow, FixedWindow, Micros, Quota};
use tidegate_testkit::RedisServer;

use super::*;
use crate::redis::RedisOptions;
use crate::{Charge, OnFailure, RedisStore};

const SECOND: Micros = 1_000_000;
const HOUR: Micros = 3_600 * SECOND;

async fn store(server: &RedisServer) -> Store {
    let options = RedisOptions {
        url: server.url(),
        tls: None,
        timeout: Duration::from_secs(5),
        key_prefix: "test".to_owned(),
        gateways: None,
        sync_every: Duration::from_millis(100),
        remember_refusals: false,
    };
    Store::Redis(Arc::new(RedisStore::connect(options).await.unwrap()))
}

/// Windows of an hour, the current one of which began half an hour ago, by a clock that is right.
fn hours(now: Micros) -> &'static Calendar {
    let first = now - 100 * HOUR - HOUR / 2;
    let starts: Vec<Micros> = (0..200).map(|nth| first + nth * HOUR).collect();
    Box::leak(Box::new(Calendar::new("hours", starts).unwrap()))
}

fn reserving(quota: impl Into<Quota>) -> Arc<Limit> {
    let limit = Limit::new("it", quota, OnFailure::Closed);
    Arc::new(limit.reserving(10 * SECOND))
}

fn charge(limit: &Limit) -> Charge<'_> {
    let key = Key {
        tag: [1; 16],
        rest: [0; 16],
    };
    Charge {
        limit,
        key,
        cost: 3,
        origin: None,
    }
}

async fn reserve(store: &Store, limit: &Arc<Limit>) -> Holds {
    let charge = charge(limit);
    let decision = store.decide(&[charge]).await;
    assert_eq!(decision.outcome, Outcome::Admitted);
    let charged = [(limit, charge.key, charge.cost)];
    store.holds(charged.into_iter(), &decision).unwrap()
}

async fn left(store: &Store, limit: &Limit) -> u64 {
    let outlooks = store.peek(&[charge(limit)]).await.unwrap();
    outlooks[0].verdict.remaining
}

/// As many as were used are charged, whatever the time is here.
#[tokio::test]
async fn a_clock_that_is_hours_off_settles_what_it_reserved() {
    let server = RedisServer::start().await;
    let calendar = hours(crate::now());
    for ahead in [0, -8 * HOUR.cast_signed(), 8 * HOUR.cast_signed()] {
        crate::tests::AHEAD.set(ahead);
        for quota in [
            Quota::from(CalendarWindow::new(20, calendar).unwrap()),
            Quota::from(FixedWindow::new(20, 24 * HOUR).unwrap()),
        ] {
            let limit = reserving(quota);
            let store = store(&server).await;
            for used in [0, 2, 3, 10] {
                reserve(&store, &limit).await.settle(|_, _| used);
                store.let_go().await;
                assert_eq!(left(&store, &limit).await, 20 - used, "{ahead}, {limit:?}");
                store.reset(&[charge(&limit)]).await.unwrap();
            }
        }
    }
}

/// The windows that are sent first are wrong: the clock of Redis is not the one that was known.
#[tokio::test]
async fn a_settlement_outside_of_the_windows_that_were_sent_is_sent_with_others() {
    let server = RedisServer::start().await;
    let limit = reserving(CalendarWindow::new(20, hours(crate::now())).unwrap());
    for used in [0, 10] {
        let store = store(&server).await;
        let mut held = reserve(&store, &limit).await;
        let Store::Redis(redis) = &store else {
            panic!("it is in Redis");
        };
        redis
            .exact()
            .believe(&charge(&limit), crate::now() - 8 * HOUR);
        held.settle(|_, _| used);
        store.let_go().await;
        assert_eq!(left(&store, &limit).await, 20 - used);
        store.reset(&[charge(&limit)]).await.unwrap();
    }
}
