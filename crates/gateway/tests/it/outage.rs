//! A Redis that is away, silent or not there yet: each limit does what its `on_failure` says, and all is well again
//! when Redis is.

use std::time::Instant;

use tidegate_testkit::{Client, RedisServer};

use crate::kit::{Bench, LONG, page, ready, shown, tells_of_limits, told};

/// A limit of three on each policy, alone and together.
const LIMITS: &str = "
limits:
  open: { fixed_window: { limit: 3, window: 31d }, on_failure: open }
  closed: { fixed_window: { limit: 3, window: 31d }, on_failure: closed }
  local: { fixed_window: { limit: 3, window: 31d } }
routes:
  - { path: /open, upstream: UPSTREAM, limits: [open] }
  - { path: /closed, upstream: UPSTREAM, limits: [closed] }
  - { path: /local, upstream: UPSTREAM, limits: [local] }
  - { path: /open-and-local, upstream: UPSTREAM, limits: [open, local] }
  - { path: /all, upstream: UPSTREAM, limits: [open, local, closed] }
";

async fn bench(redis: &RedisServer, timeout: &str) -> Bench {
    let url = redis.url();
    let store = format!("store: {{ redis: {{ url: \"{url}\", timeout: {timeout} }} }}\n");
    Bench::start(&format!("{store}{LIMITS}")).await
}

/// Every policy does its part while Redis does not decide; so much was left of the local limit when it did.
async fn on_failure_decides(client: &Client, known: u64) {
    for _ in 0..5 {
        let answer = client.get("/open").await;
        assert_eq!(answer.status, 200);
        assert!(
            !tells_of_limits(&answer),
            "nothing decided, so nothing is told"
        );
        let answer = client.get("/closed").await;
        assert_eq!(answer.status, 503);
        assert!(!tells_of_limits(&answer));
        let answer = client.get("/all").await;
        assert_eq!(answer.status, 503, "one closed limit is enough");
    }
    // The quota goes on here, from what Redis said last.
    for left in (1..known).rev() {
        assert_eq!(told(&client.get("/local").await), shown(200, 3, left));
    }
    for (status, left) in [(200, 0), (429, 0)] {
        let answer = client.get("/open-and-local").await;
        assert_eq!(told(&answer), shown(status, 3, left));
    }
    assert_eq!(told(&client.get("/local").await), shown(429, 3, 0));
}

#[tokio::test]
async fn redis_goes_down_and_comes_back() {
    let redis = RedisServer::start().await;
    let bench = bench(&redis, "5s").await;
    let (client, admin) = (&bench.client, bench.gateway.admin);
    assert_eq!(ready(admin, 200).await, "ready\n");
    for path in ["/open", "/closed", "/local"] {
        assert_eq!(told(&client.get(path).await), shown(200, 3, 2), "{path}");
    }

    redis.stop();
    let told_of = ready(admin, 503).await;
    assert!(told_of.contains("Redis"), "{told_of}");
    assert_eq!(
        page(admin, "/healthz").await.0,
        200,
        "it is alive all the same"
    );
    let forwarded = bench.upstream.count();
    on_failure_decides(client, 2).await;
    assert_eq!(
        bench.upstream.count(),
        forwarded + 5 + 2,
        "what is refused is not forwarded"
    );

    redis.restart().await;
    assert_eq!(ready(admin, 200).await, "ready\n");
    // Redis came back empty, and decides alone; what was counted here in the meantime is not charged.
    for path in ["/open", "/closed", "/local"] {
        for (status, left) in [(200, 2), (200, 1), (200, 0), (429, 0)] {
            assert_eq!(
                told(&client.get(path).await),
                shown(status, 3, left),
                "{path}"
            );
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_redis_that_falls_silent_holds_nobody_up() {
    let redis = RedisServer::start().await;
    let bench = bench(&redis, "100ms").await;
    ready(bench.gateway.admin, 200).await;
    redis.pause().await;
    let started = Instant::now();
    on_failure_decides(&bench.client, 3).await;
    assert!(
        started.elapsed() < LONG,
        "every request waited for {:?}",
        started.elapsed() / 20
    );
    let (status, text) = page(bench.gateway.admin, "/readyz").await;
    assert_eq!(status, 503);
    assert!(text.contains("Redis"), "{text}");
    redis.resume();
    ready(bench.gateway.admin, 200).await;
    bench.stop().await;
}

#[tokio::test]
async fn a_gateway_starts_without_its_redis_and_finds_it_later() {
    let redis = RedisServer::start().await;
    redis.stop();
    let bench = bench(&redis, "5s").await;
    ready(bench.gateway.admin, 503).await;
    on_failure_decides(&bench.client, 3).await;
    redis.restart().await;
    ready(bench.gateway.admin, 200).await;
    assert_eq!(told(&bench.client.get("/closed").await), shown(200, 3, 2));
    bench.stop().await;
}
