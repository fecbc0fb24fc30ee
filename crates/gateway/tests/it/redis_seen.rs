//! How Redis is, as the gateway tells: its numbers among the metrics, and a warning of one that may drop limits.

use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::kit::{LONG, get, get_each, page, until};
use crate::support::GatewayProcess;

async fn gateway(redis: &RedisServer, upstream: &Upstream, level: &str) -> GatewayProcess {
    let yaml = format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 5s }} }}
limits:
  it: {{ fixed_window: {{ limit: 1000, window: 31d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [it] }}
",
        redis.url(),
        upstream.url()
    );
    GatewayProcess::start_with("127.0.0.1:0", &format!("level: {level}"), &yaml).await
}

/// The page, once it shows this.
async fn shows(gateway: &GatewayProcess, wanted: &str) -> String {
    until(&format!("the page has {wanted}"), async || {
        page(gateway.admin, "/metrics").await.1.contains(wanted)
    })
    .await;
    page(gateway.admin, "/metrics").await.1
}

fn value(page: &str, name: &str) -> f64 {
    let mut lines = page.lines().filter_map(|line| line.split_once(' '));
    let found = lines.find(|(known, _)| *known == name);
    let (_, value) = found.unwrap_or_else(|| panic!("no {name} in {page}"));
    value.parse().unwrap()
}

async fn warnings(mut gateway: GatewayProcess) -> Vec<String> {
    gateway.process.signal("TERM");
    gateway.process.wait(LONG).await;
    let lines = gateway.process.output().into_iter();
    lines
        .filter(|line| line.contains("\"WARN\"") && line.contains("maxmemory"))
        .collect()
}

#[tokio::test]
async fn its_numbers_are_metrics_and_one_that_drops_limits_is_warned_of() {
    let options = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    let redis = RedisServer::start_with(&options).await;
    let upstream = Upstream::ok();
    let gateway = gateway(&redis, &upstream, "info").await;
    let first = shows(&gateway, "tidegate_redis_memory_bytes").await;
    assert_eq!(
        value(&first, "tidegate_redis_memory_max_bytes"),
        f64::from(64 << 20)
    );
    let used = value(&first, "tidegate_redis_memory_bytes");
    assert!((1e5..6.4e7).contains(&used), "{used} bytes");
    for none in ["evicted_keys_total", "expired_keys_total"] {
        assert_eq!(value(&first, &format!("tidegate_redis_{none}")), 0.0);
    }
    assert!(
        first.contains("# TYPE tidegate_redis_operations_per_second gauge"),
        "{first}"
    );

    let client = Client::new(gateway.address);
    get_each(&client, 20, "/", &[], 200).await;
    // Asked again within ten seconds.
    let calls = "tidegate_redis_script_calls_total";
    until("scripts are counted", async || {
        let page = page(gateway.admin, "/metrics").await.1;
        page.contains(calls) && value(&page, calls) >= 19.0
    })
    .await;
    let page = shows(&gateway, calls).await;
    let seconds = value(&page, "tidegate_redis_script_seconds_total");
    assert!((1e-6..10.0).contains(&seconds), "{seconds} s");
    let calls = value(&page, calls);
    // The probes of `/readyz` run the script on two keys each. Twice a second the gateway reads overrides by a script that it sends.
    assert!(calls <= 150.0, "{calls} calls");
    let cpu = value(&page, "tidegate_redis_cpu_seconds_total");
    assert!((1e-3..60.0).contains(&cpu), "{cpu} s");

    let warnings = warnings(gateway).await;
    assert_eq!(warnings.len(), 1, "once: {warnings:?}");
    assert!(warnings[0].contains("allkeys-lru") && warnings[0].contains("noeviction"));
}

#[tokio::test]
async fn one_that_drops_nothing_is_not_warned_of() {
    for options in [
        &["--maxmemory", "64mb", "--maxmemory-policy", "noeviction"][..],
        &["--maxmemory", "0", "--maxmemory-policy", "allkeys-lru"],
    ] {
        let redis = RedisServer::start_with(options).await;
        let gateway = gateway(&redis, &Upstream::ok(), "info").await;
        shows(&gateway, "tidegate_redis_memory_bytes").await;
        let warnings = warnings(gateway).await;
        assert!(warnings.is_empty(), "{options:?}: {warnings:?}");
    }
}

#[tokio::test]
async fn one_that_may_not_be_asked_limits_as_well_as_any() {
    let redis = RedisServer::start().await;
    redis.command(&["ACL", "SETUSER", "default", "-info"]).await;
    let upstream = Upstream::ok();
    let gateway = gateway(&redis, &upstream, "debug").await;
    gateway
        .process
        .wait_for_line("did not answer INFO", LONG)
        .await;
    assert_eq!(get(&Client::new(gateway.address), "/", &[]).await, 200);
    let (_, text) = page(gateway.admin, "/metrics").await;
    let numbers = text
        .lines()
        .filter(|line| line.starts_with("tidegate_redis_"));
    assert_eq!(numbers.collect::<Vec<_>>(), ["tidegate_redis_up 1"]);
    assert_eq!(page(gateway.admin, "/readyz").await.0, 200);
    let lines = gateway.process.output();
    let told = lines
        .iter()
        .filter(|line| line.contains("did not answer INFO"));
    assert!(
        told.into_iter().all(|line| line.contains("\"DEBUG\"")),
        "{lines:?}"
    );
}
