//! Requests that wait for others to be settled: how many may, and what their waiting costs the store.

use std::sync::Arc;

use tidegate_testkit::{Client, RedisServer};
use tokio::task::JoinHandle;

use crate::kit::{LONG, ask, exact, held, on_both_stores, one_limit, sample, waiting};
use crate::support::TestGateway;

const LIMIT: &str = "fixed_window: { limit: 1, window: 31d }, count: { status: [401] }";

/// Calls of scripts that this Redis has served.
async fn scripts(redis: &RedisServer) -> u64 {
    let stats = redis.command(&["INFO", "commandstats"]).await;
    let lines = stats.as_str().lines();
    let calls = lines.filter_map(|line| {
        let rest = line.strip_prefix("cmdstat_evalsha:calls=")?;
        rest.split(',').next()?.parse::<u64>().ok()
    });
    calls.sum()
}

#[tokio::test]
async fn who_waits_does_not_poll_the_store() {
    let redis = RedisServer::start().await;
    let (upstream, release) = held();
    let gateway = TestGateway::start(&one_limit(&exact(&redis), LIMIT, &upstream)).await;
    let first = ask(gateway.address, "/");
    upstream.wait_for(1, LONG).await;
    let before = scripts(&redis).await;
    assert_eq!(ask(gateway.address, "/").await.unwrap().status, 429);
    let calls = scripts(&redis).await - before;
    // One to be refused, one when it is heard of settlements, four in its second, one at the end; the gateway itself calls
    // in now and then. It was twenty and more.
    assert!((2..=10).contains(&calls), "{calls}");
    release.send(true).unwrap();
    assert_eq!(first.await.unwrap().status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn few_wait_for_one_key_and_the_others_are_refused_at_once() {
    on_both_stores(async |store| {
        let (upstream, release) = held();
        let gateway = TestGateway::start(&one_limit(store, LIMIT, &upstream)).await;
        let first = ask(gateway.address, "/");
        upstream.wait_for(1, LONG).await;
        let client = Arc::new(Client::h2(gateway.address));
        let asking: Vec<_> = (0..80)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move { client.get("/").await.status })
            })
            .collect();
        let mut most = 0;
        while !asking.iter().all(JoinHandle::is_finished) {
            most = most.max(sample(gateway.admin, "tidegate_waiting_requests").await);
        }
        assert!((1..=32).contains(&most), "{most} waited");
        for request in asking {
            assert_eq!(request.await.unwrap(), 429);
        }
        waiting(gateway.admin, 0).await;
        release.send(true).unwrap();
        assert_eq!(first.await.unwrap().status, 200);
        gateway.stop().await;
    })
    .await;
}

/// Other gateways do not say when they settle.
#[tokio::test]
async fn what_another_gateway_settles_lets_the_next_request_through() {
    let redis = RedisServer::start().await;
    let (upstream, release) = held();
    let yaml = one_limit(&exact(&redis), LIMIT, &upstream);
    let gateways = [
        TestGateway::start(&yaml).await,
        TestGateway::start(&yaml).await,
    ];
    let first = ask(gateways[0].address, "/");
    upstream.wait_for(1, LONG).await;
    let second = ask(gateways[1].address, "/");
    waiting(gateways[1].admin, 1).await;
    release.send(true).unwrap();
    for request in [first, second] {
        assert_eq!(request.await.unwrap().status, 200);
    }
    for gateway in gateways {
        gateway.stop().await;
    }
}
