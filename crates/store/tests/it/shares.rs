//! What gateways give away in an outage: each its share, going on from what Redis last said.

use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::RedisServer;

use crate::support::{charge, connect, every_algorithm, options, quiet_window, wait_for};

const TIMEOUT: Duration = Duration::from_millis(150);

async fn admitted(store: &RedisStore, limit: &Limit, client: u64) -> u64 {
    let mut admitted = 0;
    loop {
        let decision = store.decide(&[charge(limit, client, 1)]).await;
        assert_eq!(decision.via, Via::Fallback);
        if decision.outcome != Outcome::Admitted {
            return admitted;
        }
        admitted += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_goes_on_from_what_redis_said_last() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let limits = every_algorithm(10, quiet_window());
    let limits = limits.map(|quota| Limit::new("limit", quota, OnFailure::Local));
    for limit in &limits {
        wait_for("seven", async || {
            let decision = store.decide(&[charge(limit, 1, 1)]).await;
            let left = decision.verdicts[0].unwrap().remaining;
            (decision.via == Via::Store && left == 3).then_some(())
        })
        .await;
    }
    server.stop();
    for limit in &limits {
        let kind = limit.quota().algorithm();
        // Places are held by requests, and none runs here; with one gateway nobody else has any.
        let left = if matches!(limit.quota(), Quota::Concurrency(_)) {
            10
        } else {
            3
        };
        assert_eq!(admitted(&store, limit, 1).await, left, "{kind}");
        assert_eq!(
            admitted(&store, limit, 2).await,
            10,
            "{kind}: nothing was known of it"
        );
    }
}

/// Together the gateways give away the quota once, not once each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_share_a_quota_by_their_number() {
    let server = RedisServer::start().await;
    let patient = Duration::from_secs(5);
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(connect(&server.url(), patient).await);
    }
    for round in 0..2 {
        for (known, store) in (1..).zip(&stores) {
            let expected = if round == 0 { known } else { 4 };
            assert_eq!(store.heartbeat().await, Ok(expected));
        }
    }
    let told = RedisOptions {
        gateways: Some(3),
        ..options(&server.url(), patient)
    };
    let told = RedisStore::connect(told).await.unwrap();
    assert_eq!(
        told.heartbeat().await,
        Ok(3),
        "the configuration's word counts"
    );
    server.stop();
    for (client, quota) in (0..).zip(every_algorithm(100, quiet_window())) {
        let limit = Limit::new("limit", quota, OnFailure::Local);
        for store in &stores {
            assert_eq!(
                admitted(store, &limit, client).await,
                25,
                "{}",
                quota.algorithm()
            );
        }
        assert_eq!(admitted(&told, &limit, client).await, 33);
        let small = Limit::new("small", quota.divided(50), OnFailure::Local);
        assert_eq!(
            admitted(&stores[0], &small, client).await,
            1,
            "never less than one"
        );
    }
}

/// Four gateways that know of each other.
async fn four(server: &RedisServer) -> Vec<RedisStore> {
    let mut stores = Vec::new();
    for _ in 0..4 {
        stores.push(connect(&server.url(), Duration::from_secs(5)).await);
    }
    for store in stores.iter().chain(&stores) {
        store.heartbeat().await.unwrap();
    }
    stores
}

/// How much of 400 units these admit together without Redis.
async fn admitted_by_all(stores: &[RedisStore], client: u64) -> u64 {
    let limit = Limit::new(
        "limit",
        every_algorithm(400, quiet_window())[2],
        OnFailure::Local,
    );
    let mut sum = 0;
    for store in stores {
        sum += admitted(store, &limit, client).await;
    }
    sum
}

/// A Redis that comes back without its data has heard of few gateways at first. It may be gone again before it has heard of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_back_empty_makes_no_share_larger() {
    let server = RedisServer::start().await;
    let mut stores = four(&server).await;
    for round in 0..3 {
        server.restart().await;
        for store in &stores {
            let counted = wait_for("an answer", async || store.heartbeat().await.ok()).await;
            assert_eq!(counted, 4);
        }
        server.stop();
        assert_eq!(admitted_by_all(&stores, round).await, 400);
    }
    // A higher count applies at once.
    server.restart().await;
    for _ in 0..2 {
        stores.push(connect(&server.url(), Duration::from_secs(5)).await);
    }
    for expected in [None, Some(6)] {
        for store in &stores {
            let counted = wait_for("an answer", async || store.heartbeat().await.ok()).await;
            assert_eq!(counted, expected.unwrap_or(counted));
        }
    }
    server.stop();
    // 66 of 400 each.
    assert_eq!(admitted_by_all(&stores, 3).await, 6 * 66);
}

/// Nobody notices that another Redis answers: a replica that never had the data, or one that was behind when it took over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_that_loses_heartbeats_makes_no_share_larger() {
    let server = RedisServer::start().await;
    let stores = four(&server).await;
    let key = "tidegate:gateways";
    let behind = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
                  redis.call('ZINCRBY', KEYS[1], -10000000, id) end";
    for lost in [vec!["DEL", key], vec!["EVAL", behind, "1", key]] {
        server.command(&lost).await;
        for store in &stores {
            assert_eq!(store.heartbeat().await, Ok(4), "{lost:?}");
        }
    }
    server.stop();
    assert_eq!(admitted_by_all(&stores, 1).await, 400);
}

/// The state of an outage outlives short returns: no flap hands a quota out again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flapping_redis_hands_nothing_out_again() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let limit = Limit::new(
        "limit",
        every_algorithm(10, quiet_window())[2],
        OnFailure::Local,
    );
    let probe = Limit::new(
        "probe",
        every_algorithm(1_000, quiet_window())[2],
        OnFailure::Open,
    );
    server.stop();
    assert_eq!(admitted(&store, &limit, 1).await, 10);
    for _ in 0..2 {
        server.restart().await;
        wait_for("a decision by Redis", async || {
            let decision = store.decide(&[charge(&probe, 1, 1)]).await;
            (decision.via == Via::Store).then_some(())
        })
        .await;
        server.stop();
        assert_eq!(admitted(&store, &limit, 1).await, 0);
    }
}
