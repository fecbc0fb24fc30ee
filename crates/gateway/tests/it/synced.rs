//! Two gateways whose counts are exchanged: what clients and metrics see of it, and that the end of one loses none.

use std::net::SocketAddr;

use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::kit::{Bench, get_each, page, page_json, sample, shown, told, until};
use crate::support::TestGateway;

async fn bench(redis: &RedisServer, sync_every: &str) -> Bench {
    let url = redis.url();
    Bench::start(&format!(
        "
store: {{ redis: {{ url: \"{url}\", timeout: 5s, mode: synced, sync_every: {sync_every} }} }}
secret: the same for both
limits:
  few: {{ fixed_window: {{ limit: 4, window: 31d }} }}
  many: {{ sliding_window_counter: {{ limit: 1000, window: 31d }} }}
routes:
  - {{ path: /few, upstream: UPSTREAM, limits: [few, many] }}
  - {{ path: /**, upstream: UPSTREAM, limits: [many] }}
"
    ))
    .await
}

/// Waits until the page of metrics says so.
async fn says(admin: SocketAddr, wanted: &str) {
    until(wanted, async || {
        let (_, text) = page(admin, "/metrics").await;
        text.lines().any(|line| line == wanted)
    })
    .await;
}

/// What Redis knows to be left of each limit.
async fn left(admin: SocketAddr) -> Vec<u64> {
    let report = page_json(admin, "/clients/ip:127.0.0.1").await;
    let limits = report["limits"].as_array().unwrap().iter();
    limits
        .map(|limit| limit["remaining"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn gateways_hear_of_each_other_and_say_how_far_they_went() {
    let redis = RedisServer::start().await;
    let (one, other) = (bench(&redis, "20ms").await, bench(&redis, "20ms").await);
    for left in [3, 2] {
        assert_eq!(told(&one.client.get("/few").await), shown(200, 4, left));
    }
    says(one.gateway.admin, "tidegate_synced_waiting_seconds 0.0").await;
    assert_eq!(left(one.gateway.admin).await, [2, 998]);
    // The other one has not been asked yet, so it knows of nothing.
    assert_eq!(told(&other.client.get("/few").await), shown(200, 4, 3));
    says(other.gateway.admin, "tidegate_synced_waiting_seconds 0.0").await;
    assert_eq!(told(&other.client.get("/few").await), shown(200, 4, 0));
    assert_eq!(told(&other.client.get("/few").await), shown(429, 4, 0));
    for line in [
        "tidegate_decisions_total{limit=\"few\",verdict=\"allowed\",decided_by=\"gateway\"} 2",
        "tidegate_decisions_total{limit=\"few\",verdict=\"refused\",decided_by=\"gateway\"} 1",
        "tidegate_synced_keys 2",
        "tidegate_synced_unplaced_decisions_total 0",
        "tidegate_synced_exchanges_total{outcome=\"failed\"} 0",
        "tidegate_synced_overshoot_total{limit=\"few\"} 0",
        "tidegate_synced_overshoot_max{limit=\"few\"} 0",
        "tidegate_synced_overshoot_max{limit=\"many\"} 0",
    ] {
        says(other.gateway.admin, line).await;
    }
}

#[tokio::test]
async fn a_new_gateway_refuses_the_first_request_of_a_used_up_key() {
    let redis = RedisServer::start().await;
    let one = bench(&redis, "20ms").await;
    get_each(&one.client, 4, "/few", &[], 200).await;
    until("Redis has all counts", async || {
        left(one.gateway.admin).await == [0, 996]
    })
    .await;
    let new = bench(&redis, "1m").await;
    assert_eq!(told(&new.client.get("/few").await), shown(429, 4, 0));
    says(new.gateway.admin, "tidegate_synced_keys 2").await;
    one.stop().await;
    new.stop().await;
}

#[tokio::test]
async fn a_limit_that_becomes_synced_begins_with_the_counts_of_all_gateways() {
    let redis = RedisServer::start().await;
    let one = bench(&redis, "20ms").await;
    let url = redis.url();
    let yaml = |mode: &str, upstream: &str| {
        format!(
            "
store: {{ redis: {{ url: \"{url}\", timeout: 5s, mode: synced, sync_every: 1m }} }}
secret: the same for both
limits:
  few: {{ fixed_window: {{ limit: 4, window: 31d }}, mode: {mode} }}
  other: {{ fixed_window: {{ limit: 4, window: 31d }} }}
routes:
  - {{ path: /few, upstream: \"{upstream}\", limits: [few] }}
  - {{ path: /**, upstream: \"{upstream}\", limits: [other] }}
"
        )
    };
    let upstream = Upstream::ok();
    let other = TestGateway::start(&yaml("exact", &upstream.url())).await;
    get_each(&one.client, 4, "/few", &[], 200).await;
    until("Redis has all counts", async || {
        left(one.gateway.admin).await == [0, 996]
    })
    .await;
    other.reload(&yaml("synced", &upstream.url())).await;
    let client = Client::new(other.address);
    assert_eq!(told(&client.get("/few").await), shown(429, 4, 0));
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_gateway_that_ends_tells_what_it_has_counted() {
    let redis = RedisServer::start().await;
    let (one, other) = (bench(&redis, "1m").await, bench(&redis, "1m").await);
    get_each(&one.client, 60, "/", &[], 200).await;
    // The first of them could not wait.
    says(one.gateway.admin, "tidegate_synced_keys 1").await;
    assert!(left(other.gateway.admin).await[1] > 940);
    one.stop().await;
    assert_eq!(left(other.gateway.admin).await, [4, 940]);
}

/// What two gateways admit before they have heard of each other is seen by both when they have.
#[tokio::test]
async fn what_is_beyond_a_limit_is_measured() {
    let redis = RedisServer::start().await;
    let (one, other) = (bench(&redis, "1m").await, bench(&redis, "20ms").await);
    // The first of these is told at once, the others are not.
    assert_eq!(told(&one.client.get("/few").await), shown(200, 4, 3));
    says(
        one.gateway.admin,
        "tidegate_synced_exchanges_total{outcome=\"done\"} 1",
    )
    .await;
    for left in [2, 1] {
        assert_eq!(told(&one.client.get("/few").await), shown(200, 4, left));
    }
    for _ in 0..4 {
        other.client.get("/few").await;
    }
    one.stop().await;
    let overshoot = "tidegate_synced_overshoot_max{limit=\"few\"}";
    until("both have seen it", async || {
        // Whoever asks keeps the key in use.
        assert!([200, 429].contains(&other.client.get("/few").await.status.as_u16()));
        [2, 3].contains(&sample(other.gateway.admin, overshoot).await)
    })
    .await;
}
