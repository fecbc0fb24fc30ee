//! Where a Redis may be, as far as users see it: with TLS, and as a cluster of which a part dies.

use tidegate_testkit::{Authority, RedisCluster, TlsRedis};

use crate::kit::{Bench, ready, shown, told};

const LIMIT: &str = "fixed_window: { limit: 5, window: 31d }";

async fn counts_to_five(bench: &Bench, path: &str) {
    for left in (0..5).rev() {
        assert_eq!(told(&bench.client.get(path).await), shown(200, 5, left));
    }
    assert_eq!(told(&bench.client.get(path).await), shown(429, 5, 0));
}

fn store(url: &str, more: &str) -> String {
    format!("store: {{ redis: {{ url: \"{url}\", timeout: 2s, on_failure: closed{more} }} }}\n")
}

#[tokio::test]
async fn with_tls_and_an_authority_of_its_own() {
    let authority = Authority::new();
    let redis = TlsRedis::start(&authority, &authority.issue(&["127.0.0.1"]), false).await;
    let tls = format!(", tls: {{ ca: \"{}\" }}", redis.authority_file());
    let url = redis.url("", "127.0.0.1");
    let bench = Bench::of_limit(&store(&url, &tls), LIMIT).await;
    assert_eq!(ready(bench.gateway.admin, 200).await, "ready\n");
    counts_to_five(&bench, "/").await;
    bench.stop().await;

    // The name is another than the certificate's: the port that says whether it is ready says why it is not.
    let other = TlsRedis::start(&authority, &authority.issue(&["redis.example.com"]), false).await;
    let url = other.url(":hunter2@", "127.0.0.1");
    let bench = Bench::of_limit(&store(&url, &tls), LIMIT).await;
    let told = ready(bench.gateway.admin, 503).await;
    assert!(
        told.contains("TLS") && told.contains("another name"),
        "{told}"
    );
    assert!(!told.contains("hunter2"), "{told}");
    assert_eq!(bench.client.get("/").await.status, 503);
    bench.stop().await;
}

/// Three limits of one request, whose keys are in three slots: all or nothing, as anywhere.
#[tokio::test]
async fn in_a_cluster() {
    let cluster = RedisCluster::start().await;
    let store = store(&cluster.url(), "");
    let bench = Bench::start(&format!(
        "
{store}
limits:
  own: {{ {LIMIT} }}
  all: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [] }}
  route: {{ sliding_window_log: {{ limit: 7, window: 31d }}, per: [route] }}
always: [all]
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own, route] }}
"
    ))
    .await;
    assert_eq!(ready(bench.gateway.admin, 200).await, "ready\n");
    counts_to_five(&bench, "/").await;
    let mut keys = 0;
    for node in 0..3 {
        let found = cluster.node(node).command(&["KEYS", "tidegate:*"]).await;
        keys += found.as_array().len();
    }
    assert_eq!(keys, 3 + 2, "three limits, the secret and the gateways");
    cluster.node(0).stop();
    assert_eq!(
        ready(bench.gateway.admin, 200).await,
        "ready\n",
        "two of three are"
    );
    bench.stop().await;
}
