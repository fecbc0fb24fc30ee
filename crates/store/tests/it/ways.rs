//! Limits that block, and limits that are only observed: the same on both stores, and through an outage.

use std::time::Duration;

use tidegate_core::{Block, FixedWindow, TokenBucket};
use tidegate_store::{Charge, Limit, Mode, OnFailure, Outcome, RedisStore, Store, Via};
use tidegate_testkit::{Port, RedisServer};

use crate::behaviour::{admitted, on_both, refused};
use crate::support::{
    HOUR, SECOND, charge, connect, error_of, every_algorithm, exact_store, limit, quiet_window,
    wait_for,
};

/// Three per second, and whoever wants more is refused for an hour.
fn blocks(extend: bool) -> Limit {
    let quota = FixedWindow::new(3, SECOND).unwrap();
    let span = HOUR;
    limit("blocks", quota).blocking(Block { span, extend })
}

/// Uses three in one window and one more, which is refused.
async fn exceed(store: &Store, charges: &[Charge<'_>]) {
    wait_for("a fourth request within a second", async || {
        let decision = store.decide(charges).await;
        (decision.outcome == Outcome::Refused).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_exceeds_is_refused_until_the_block_ends() {
    on_both(async |store| {
        for (client, extend) in [(1, false), (2, true)] {
            let limit = blocks(extend);
            let charges = [charge(&limit, client, 1)];
            exceed(store, &charges).await;
            let first = refused(store, &charges).await[0];
            // The window that was exceeded is over by then.
            tokio::time::sleep(Duration::from_millis(1_010)).await;
            let second = refused(store, &charges).await[0];
            assert_eq!((second.remaining, first.remaining), (0, 0));
            let extended = second.retry_after == HOUR;
            let counted_down = first.retry_after - second.retry_after >= SECOND;
            assert_eq!(
                (extended, counted_down),
                (extend, !extend),
                "{first:?} {second:?}"
            );
            // Nobody else is concerned.
            admitted(store, &[charge(&limit, client + 10, 1)]).await;
            store.reset(&charges).await.unwrap();
            admitted(store, &charges).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_look_blocks_nobody() {
    on_both(async |store| {
        let quota = every_algorithm(1, quiet_window())[0];
        let span = HOUR;
        let limit = limit("looked", quota).blocking(Block { span, extend: true });
        let charges = [charge(&limit, 1, 1)];
        admitted(store, &charges).await;
        for _ in 0..3 {
            let outlook = store.peek(&charges).await.unwrap()[0];
            assert!(!outlook.verdict.allowed && outlook.verdict.retry_after > HOUR);
        }
        refused(store, &charges).await;
        let blocked = store.peek(&charges).await.unwrap()[0].verdict;
        assert_eq!((blocked.allowed, blocked.remaining), (false, 0));
    })
    .await;
}

/// What the other limit refuses is no offence against this one.
#[tokio::test]
async fn only_the_limit_that_was_exceeded_blocks() {
    on_both(async |store| {
        let wide = limit("wide", every_algorithm(9, quiet_window())[2]);
        let span = HOUR;
        let wide = wide.blocking(Block {
            span,
            extend: false,
        });
        let tight = limit("tight", every_algorithm(1, quiet_window())[2]);
        let both = [charge(&wide, 1, 1), charge(&tight, 1, 1)];
        admitted(store, &both).await;
        refused(store, &both).await;
        let verdicts = admitted(store, &both[..1]).await;
        assert_eq!(verdicts[0].remaining, 7);
    })
    .await;
}

#[tokio::test]
async fn what_is_observed_refuses_nobody_and_counts_who_was_admitted() {
    on_both(async |store| {
        for (client, quota) in (0..).zip(every_algorithm(3, quiet_window())) {
            let observed = limit("observed", quota).observed();
            let live = limit("live", every_algorithm(6, quiet_window())[2]);
            let both = [charge(&observed, client, 1), charge(&live, client, 1)];
            let mut would = Vec::new();
            for _ in 0..6 {
                would.push(admitted(store, &both).await[0].allowed);
            }
            assert_eq!(would, [true, true, true, false, false, false]);
            // Whom the live one refuses is not counted.
            let other = [charge(&observed, client + 100, 1), charge(&live, client, 1)];
            for _ in 0..3 {
                assert!(refused(store, &other).await[0].allowed);
            }
            let left = admitted(store, &other[..1]).await;
            assert_eq!(left[0].remaining, 2);
        }
    })
    .await;
}

/// Whoever is blocked when Redis goes stays blocked.
#[tokio::test]
async fn a_block_outlasts_redis() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), Duration::from_secs(5)).await;
    let rate = tidegate_core::Rate {
        count: 1,
        per: SECOND / 100,
    };
    let quota = TokenBucket::new(1, rate).unwrap();
    let span = HOUR;
    let block = Block {
        span,
        extend: false,
    };
    let limit = Limit::new("blocks", quota, OnFailure::Local).blocking(block);
    let charges = [charge(&limit, 1, 1)];
    let others = [charge(&limit, 2, 1)];
    for charges in [&charges, &others] {
        wait_for("two requests within 10 ms", async || {
            (store.decide(charges).await.outcome == Outcome::Refused).then_some(())
        })
        .await;
    }
    server.stop();
    // For a moment the refusal is remembered; then the outage is seen.
    wait_for("a decision without Redis", async || {
        let decision = store.decide(&charges).await;
        assert_eq!(decision.outcome, Outcome::Refused);
        assert!(decision.verdicts[0].unwrap().retry_after > HOUR / 2);
        (decision.via == Via::Fallback).then_some(())
    })
    .await;
    // Nor does a larger plan, or a reload, end it.
    let quota = TokenBucket::new(100, rate).unwrap();
    let larger = Limit::new("blocks", quota, OnFailure::Local).blocking(block);
    let decision = store.decide(&[charge(&larger, 2, 1)]).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Refused, Via::Fallback)
    );
}

/// A block that begins while Redis is away, by what Redis said before that: it lasts like any other.
#[tokio::test]
async fn a_block_that_begins_without_redis_lasts() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), Duration::from_millis(200)).await;
    let quota = FixedWindow::new(1, 2 * SECOND).unwrap();
    let limit = Limit::new("blocks", quota, OnFailure::Local).blocking(Block {
        span: HOUR,
        extend: false,
    });
    let charges = [charge(&limit, 1, 1)];
    // Now or in a new window.
    wait_for("a request that is admitted", async || {
        let decision = store.decide(&charges).await;
        (decision.outcome == Outcome::Admitted).then_some(())
    })
    .await;
    server.stop();
    wait_for("a refusal without Redis", async || {
        let decision = store.decide(&charges).await;
        let is_refused = decision.outcome == Outcome::Refused;
        (is_refused && decision.via == Via::Fallback).then_some(())
    })
    .await;
    // The window that was exceeded is over by then.
    tokio::time::sleep(Duration::from_millis(2_010)).await;
    let decision = store.decide(&charges).await;
    assert_eq!(decision.outcome, Outcome::Refused);
    assert!(decision.verdicts[0].unwrap().retry_after > HOUR / 2);
}

/// What is only observed makes no request unavailable.
#[tokio::test]
async fn an_observed_limit_closes_nothing() {
    let server = RedisServer::start().await;
    let url = server.url();
    drop(server);
    let store = connect(&url, Duration::from_millis(25)).await;
    let limit = Limit::new("observed", every_algorithm(3, HOUR)[0], OnFailure::Closed).observed();
    let decision = store.decide(&[charge(&limit, 1, 1)]).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Admitted, Via::Fallback)
    );
}

/// A refusal of an observed limit is no refusal to be remembered.
#[tokio::test]
async fn an_observed_refusal_is_not_given_again() {
    let server = RedisServer::start().await;
    let store: RedisStore = connect(&server.url(), Duration::from_secs(5)).await;
    let observed = limit("observed", every_algorithm(1, quiet_window())[0]).observed();
    for _ in 0..5 {
        let decision = store.decide(&[charge(&observed, 1, 1)]).await;
        assert_eq!(
            (decision.outcome, decision.via),
            (Outcome::Admitted, Via::Store)
        );
        assert_eq!(error_of(&decision), None);
    }
}

/// Two slots of a cluster: the check refuses, and the block begins nevertheless.
#[tokio::test]
async fn the_keys_of_a_block_stand_beside_those_of_the_limit() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let quota = every_algorithm(1, quiet_window())[2];
    let span = HOUR;
    let limit = limit("blocks", quota).blocking(Block {
        span,
        extend: false,
    });
    let charges = [charge(&limit, 1, 1)];
    for _ in 0..2 {
        store.decide(&charges).await;
    }
    let key = format!("{}:block", charges[0].redis_key("tidegate"));
    let left = server.command(&["PTTL", &key]).await.as_int();
    assert!((1..=3_600_001).contains(&left), "{left}");
    store.reset(&charges).await.unwrap();
    let keys = server.command(&["KEYS", "*blocks*"]).await;
    assert_eq!(keys.as_array().len(), 0);
}

/// What an observed limit would have refused is not charged, so it is not given back when another limit has no answer.
#[tokio::test]
async fn what_is_observed_in_an_outage_gives_back_what_it_charged_alone() {
    let port = Port::reserve();
    let store = connect(&format!("redis://{}", port.addr()), Duration::from_secs(5)).await;
    let quota = every_algorithm(3, quiet_window())[0];
    let observed = Limit::new("observed", quota, OnFailure::Local).in_mode(Mode::Leased);
    let observed = observed.observed();
    let closed = Limit::new("closed", quota, OnFailure::Closed);
    let alone = [charge(&observed, 1, 1)];
    let both = [charge(&observed, 1, 2), charge(&closed, 1, 1)];
    let mut would = Vec::new();
    for _ in 0..4 {
        would.push(store.decide(&alone).await.verdicts[0].unwrap().allowed);
        assert_eq!(store.decide(&both).await.outcome, Outcome::Unavailable);
    }
    assert_eq!(would, [true, true, true, false]);
}
