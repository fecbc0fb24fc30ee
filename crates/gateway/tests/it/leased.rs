//! Gateways that share a leased limit. What a gateway that ends has not spent is there for the others at once. What a gateway that
//! is killed may have spent is there for nobody.

use std::net::SocketAddr;

use tidegate_testkit::{Client, RedisServer, Reply, Upstream};

use crate::access_log::lines;
use crate::kit::{LONG, exact};
use crate::support::{GatewayProcess, TestGateway};

const LIMIT: usize = 600;

fn yaml(redis: &RedisServer, upstream: &Upstream, mode: &str) -> String {
    format!(
        "{}secret: the same for all
limits:
  shared: {{ fixed_window: {{ limit: {LIMIT}, window: 31d }}, mode: {mode} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [shared] }}
",
        exact(redis),
        upstream.url()
    )
}

async fn gateway(redis: &RedisServer, upstream: &Upstream) -> GatewayProcess {
    GatewayProcess::start(&yaml(redis, upstream, "leased")).await
}

/// How many of so many requests are admitted; each is answered as the limit says.
async fn admitted(gateway: &GatewayProcess, requests: usize) -> usize {
    admitted_at(gateway.address, requests).await
}

async fn admitted_at(address: SocketAddr, requests: usize) -> usize {
    let client = Client::new(address);
    let mut admitted = 0;
    for _ in 0..requests {
        let answer = client.get("/").await;
        assert!([200, 429].contains(&answer.status.as_u16()), "{answer:?}");
        admitted += usize::from(answer.status == 200);
    }
    admitted
}

async fn holders(redis: &RedisServer) -> usize {
    match &slices(redis).await[..] {
        [] => 0,
        [key, ..] => slices_out(redis, key).await,
    }
}

/// The keys under which Redis knows who has borrowed of a budget.
pub(crate) async fn slices(redis: &RedisServer) -> Vec<String> {
    let keys = crate::callers::keys(redis).await.into_iter();
    keys.filter(|key| key.ends_with(":slices")).collect()
}

/// How many gateways have something of a budget.
pub(crate) async fn slices_out(redis: &RedisServer, key: &str) -> usize {
    let slices = redis.command(&["HVALS", key]).await;
    // "session call settled out lapse": what is returned stays known until it would lapse, with nothing out.
    let is_out = |slice: &&Reply| slice.as_str().split(' ').nth(3) != Some("0");
    slices.as_array().iter().filter(is_out).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_ends_returns_what_it_has() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let (mut one, other) = (
        gateway(&redis, &upstream).await,
        gateway(&redis, &upstream).await,
    );
    assert_eq!(admitted(&one, 50).await, 50);
    assert_eq!(holders(&redis).await, 1);
    one.process.signal("TERM");
    assert!(one.process.wait(LONG).await.success());
    assert_eq!(holders(&redis).await, 0);
    assert_eq!(admitted(&other, LIMIT).await, LIMIT - 50);
    assert_eq!(upstream.count(), LIMIT);
}

/// Some requests ask Redis for a slice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_who_decides_as_the_metric_does() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = gateway(&redis, &upstream).await;
    admitted(&gateway, 20).await;
    for line in lines(&gateway, 20).await {
        assert_eq!(line["decided_by"], "gateway", "{line}");
    }
}

/// Both gateways hold slices when they are reloaded, one after the other, and get requests meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_leaves_leased_counts_what_was_spent_of_slices() {
    for mode in ["exact", "synced"] {
        let redis = RedisServer::start().await;
        let upstream = Upstream::ok();
        let leased = yaml(&redis, &upstream, "leased");
        let (one, other) = tokio::join!(TestGateway::start(&leased), TestGateway::start(&leased));
        for _ in 0..4 {
            assert_eq!(admitted_at(one.address, 25).await, 25);
            assert_eq!(admitted_at(other.address, 25).await, 25);
        }
        assert_eq!(holders(&redis).await, 2);
        let next = yaml(&redis, &upstream, mode);
        let asking = admitted_at(one.address, 60);
        let (_, ()) = tokio::join!(asking, one.reload(&next));
        other.reload(&next).await;
        assert_eq!(holders(&redis).await, 0, "{mode}");
        // One after the other: what a gateway counts under `synced` reaches the other before its first answer.
        admitted_at(one.address, LIMIT).await;
        admitted_at(other.address, LIMIT).await;
        // Under `synced` a gateway admits some requests before the first answer to its counts.
        let most = if mode == "exact" { LIMIT } else { LIMIT + 10 };
        let count = upstream.count();
        assert!((LIMIT..=most).contains(&count), "{mode}: {count}");
        tokio::join!(one.stop(), other.stop());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_makes_room_for_nobody() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(gateway(&redis, &upstream).await);
    }
    for round in 0..40 {
        if round == 10 {
            all[3].process.kill().await;
            all[3] = gateway(&redis, &upstream).await;
        }
        for gateway in &all {
            admitted(gateway, 6).await;
        }
    }
    let count = upstream.count();
    assert!((LIMIT / 2..=LIMIT).contains(&count), "{count}");
    eprintln!("{count} of {LIMIT} admitted");
}
