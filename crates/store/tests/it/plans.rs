//! Budgets of several plans under one client, and quotas that a reload changes: on both stores, and in every mode.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Block, Micros, Quota, Rate, TokenBucket};
use tidegate_store::{Limit, Mode, Outcome, Store};
use tidegate_testkit::RedisServer;

use crate::support::{
    HOUR, MS, charge, connect, connect_exact, lendable, limit, memory_store, quiet_window,
};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Each store with the modes in which it decides by itself, and a client of its own.
async fn stores(server: &RedisServer) -> [(Store, Mode, u64); 4] {
    let redis = Store::Redis(Arc::new(connect_exact(&server.url(), TIMEOUT).await));
    [
        (memory_store(), Mode::Exact, 1),
        (redis.clone(), Mode::Exact, 2),
        (redis.clone(), Mode::Leased, 3),
        (redis, Mode::Local, 4),
    ]
}

fn bucket(capacity: u64, count: u64, per: Micros) -> Quota {
    let rate = Rate { count, per };
    TokenBucket::new(capacity, rate).unwrap().into()
}

/// How many of these are admitted.
async fn admitted(store: &Store, limit: &Limit, client: u64, requests: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..requests {
        let decision = store.decide(&[charge(limit, client, 1)]).await;
        admitted += u64::from(decision.outcome == Outcome::Admitted);
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_begins_with_its_own_budget_and_finds_it_again() {
    let server = RedisServer::start().await;
    for (store, mode, client) in stores(&server).await {
        let of_plan = lendable(30, quiet_window());
        for (free, gold) in lendable(20, quiet_window()).into_iter().zip(of_plan) {
            let free = limit("plan", free).in_mode(mode);
            let gold = free.with_quota(gold).of_plan("gold");
            let by_override = free.clone().of_override();
            let what = (mode, free.quota().algorithm());
            for (limit, own) in [(&free, 20), (&gold, 30), (&by_override, 20)] {
                assert_eq!(admitted(&store, limit, client, 10).await, 10, "{what:?}");
                assert_eq!(
                    admitted(&store, limit, client, 40).await,
                    own - 10,
                    "{what:?}"
                );
            }
            assert_eq!(admitted(&store, &free, client, 1).await, 0, "{what:?}");
            store.reset(&[charge(&gold, client, 1)]).await.unwrap();
            assert_eq!(admitted(&store, &gold, client, 40).await, 30, "{what:?}");
            assert_eq!(admitted(&store, &free, client, 1).await, 0, "{what:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_is_one_plans_own() {
    let server = RedisServer::start().await;
    for (store, mode, client) in stores(&server).await {
        if mode == Mode::Leased {
            continue;
        }
        let block = Block {
            span: HOUR,
            extend: false,
        };
        let free = limit("block", bucket(2, 2, HOUR)).in_mode(mode);
        let free = free.blocking(block);
        let gold = free.clone().of_plan("gold");
        assert_eq!(admitted(&store, &gold, client, 1).await, 1, "{mode:?}");
        assert_eq!(admitted(&store, &free, client, 3).await, 2, "{mode:?}");
        assert_eq!(admitted(&store, &gold, client, 1).await, 1, "{mode:?}");
    }
}

/// A reload lowers a quota and another one raises it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_lowered_and_raised_again_meets_what_was_used() {
    let server = RedisServer::start().await;
    for (store, mode, client) in stores(&server).await {
        let window = quiet_window();
        let lowered = lendable(20, window);
        for (large, small) in lendable(200, window).into_iter().zip(lowered) {
            let large = limit("reload", large).in_mode(mode);
            let small = large.with_quota(small);
            let what = (mode, large.quota().algorithm());
            assert_eq!(admitted(&store, &large, client, 150).await, 150, "{what:?}");
            let refused = store.decide(&[charge(&small, client, 1)]).await;
            let refused = refused.verdicts[0].unwrap();
            assert!(
                !refused.allowed && refused.remaining == 0,
                "{what:?}: {refused:?}"
            );
            if small.quota().is_paced() && mode != Mode::Leased {
                // 131 units at the new rate, but for what was paid off meanwhile.
                let least = window / 20 * 130;
                assert!(refused.retry_after > least, "{what:?}: {refused:?}");
            }
            let left = admitted(&store, &large, client, 200).await;
            assert_eq!(left, 50, "{what:?}");
        }
    }
}

/// Redis keeps a debt for as long as the new rate needs, once a request was refused, also by another limit.
#[tokio::test]
async fn a_lowered_rate_outlasts_the_old_time_to_live() {
    let server = RedisServer::start().await;
    let store = Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await));
    for mode in [Mode::Exact, Mode::Leased] {
        let fast = limit("rate", bucket(100, 100, 2 * 60_000 * MS)).in_mode(mode);
        let slow = fast.with_quota(bucket(50, 100, 20 * HOUR));
        let client = 1 + mode as u64;
        assert_eq!(admitted(&store, &fast, client, 90).await, 90);
        let key = charge(&fast, client, 1).redis_key("tidegate");
        assert_eq!(admitted(&store, &slow, client, 1).await, 0);
        let ttl = server.command(&["PTTL", &key]).await.as_int();
        let most = 20 * HOUR / MS;
        assert!(
            (most / 2..most).contains(&(ttl as u64)),
            "{mode:?}: {ttl} ms"
        );
    }
}

#[tokio::test]
async fn a_lowered_rate_outlasts_it_also_if_another_limit_refuses() {
    let server = RedisServer::start().await;
    let store = Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await));
    let fast = limit("rate", bucket(100, 100, 2 * 60_000 * MS));
    let slow = fast.with_quota(bucket(100, 100, 20 * HOUR));
    let other = limit("other", bucket(1, 1, 20 * HOUR));
    assert_eq!(admitted(&store, &fast, 1, 60).await, 60);
    assert_eq!(admitted(&store, &other, 1, 1).await, 1);
    let decision = store
        .decide(&[charge(&slow, 1, 1), charge(&other, 1, 1)])
        .await;
    assert_eq!(decision.outcome, Outcome::Refused);
    assert!(decision.verdicts[0].unwrap().allowed);
    let key = charge(&slow, 1, 1).redis_key("tidegate");
    let ttl = server.command(&["PTTL", &key]).await.as_int();
    let most = 20 * HOUR / MS;
    assert!((most / 2..most).contains(&(ttl as u64)), "{ttl} ms");
}

#[tokio::test]
async fn a_lowered_rate_outlasts_it_also_if_a_request_holds_its_cost() {
    let server = RedisServer::start().await;
    let store = Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await));
    let fast = limit("rate", bucket(100, 100, 2 * 60_000 * MS));
    let slow = fast.with_quota(bucket(100, 100, 20 * HOUR));
    assert_eq!(admitted(&store, &fast, 1, 60).await, 60);
    let held = slow.clone().reserving(HOUR);
    let decision = store.decide(&[charge(&held, 1, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Admitted);
    let key = charge(&slow, 1, 1).redis_key("tidegate");
    let ttl = server.command(&["PTTL", &key]).await.as_int();
    let most = 20 * HOUR / MS;
    assert!((most / 2..most).contains(&(ttl as u64)), "{ttl} ms");
}
