//! A Redis that is reached and gives no decisions, or not for all keys, as `/status.json` tells it.

use tidegate_status::document::{State, Status};
use tidegate_testkit::{Client, RedisCluster, RedisServer, Upstream};

use crate::kit::{get, page, until};
use crate::status::{status, when};
use crate::support::TestGateway;

/// Three limits, each with another `on_failure`, and one that never asks Redis.
fn yaml(url: &str, secret: &str, upstream: &Upstream) -> String {
    format!(
        "
secret: {secret}
store: {{ redis: {{ url: \"{url}\", timeout: 50ms }} }}
clients: [{{ user_id: {{ header: X-User-Id }} }}, {{ ip: {{}} }}]
trusted_proxies: [127.0.0.1]
limits:
  guard: {{ fixed_window: {{ limit: 100000, window: 31d }}, on_failure: open }}
  few: {{ fixed_window: {{ limit: 100000, window: 31d }}, per: [] }}
  own: {{ fixed_window: {{ limit: 100000, window: 31d }}, mode: local, on_failure: closed }}
routes: [{{ path: /**, upstream: \"{}\", limits: [guard, few, own] }}]
",
        upstream.url()
    )
}

/// Requests of many clients, until this holds of the document.
async fn asking(gateway: &TestGateway, what: &str, is_so: impl Fn(&Status) -> bool) -> Status {
    let client = Client::new(gateway.address);
    until(what, async || {
        for user in ["one", "two", "three", "four"] {
            get(&client, "/", &[("x-user-id", user)]).await;
        }
        is_so(&status(gateway.admin).await)
    })
    .await;
    status(gateway.admin).await
}

/// The kinds of the events after the start, the first one first, with how good the news is.
fn news(status: &Status) -> Vec<(&str, State)> {
    let events = status.events.iter().rev().skip(1);
    events.map(|event| (&*event.kind, event.state)).collect()
}

fn is_failing(status: &Status) -> bool {
    status.health.state == State::Failing
}

fn is_well(status: &Status) -> bool {
    status.health.state == State::Ok
}

const LOST_AND_BACK: [(&str, State); 2] = [("breaker", State::Failing), ("breaker", State::Ok)];

#[tokio::test]
async fn one_that_is_full_is_no_healthy_one() {
    let redis = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis.url(), "it", &upstream)).await;
    let before = asking(&gateway, "Redis decides", |it| {
        it.store.redis.as_ref().is_some_and(|redis| redis.calls > 9)
    })
    .await;
    assert!(is_well(&before), "{:?}", before.health);
    redis.command(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let full = asking(&gateway, "it is told of", is_failing).await;
    assert!(full.store.redis.as_ref().unwrap().is_up);
    let [reason] = &full.health.reasons[..] else {
        panic!("{:?}", full.health.reasons);
    };
    assert!(
        reason.starts_with("Redis gives no decisions: Redis answered OOM "),
        "{reason}"
    );
    let follows = "(Redis is full: raise its `maxmemory`). Each limit follows its on_failure: local for few, open for guard.";
    assert!(reason.ends_with(follows), "{reason}");
    assert_eq!(full.events[0].text, *reason);
    let guard = full.limits.iter().find(|limit| limit.name == "guard");
    let minute = guard.unwrap().minute;
    assert!(minute.undecided > 0, "{minute:?}");
    assert!(minute.asked() >= minute.undecided + minute.admitted);
    redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    let again = asking(&gateway, "it decides again", is_well).await;
    assert_eq!(news(&again), LOST_AND_BACK);
    gateway.stop().await;
}

/// Keeps Redis busy for longer than the gateway waits. Between two scripts it answers.
const BUSY: &str = "
local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
local start = now()
while now() - start < 250 do end";

#[tokio::test]
async fn one_that_is_too_slow_is_no_healthy_one() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis.url(), "it", &upstream)).await;
    asking(&gateway, "it is healthy", is_well).await;
    let mut busy = redis.connect().await;
    let slow =
        tokio::spawn(async move { while busy.command(&["EVAL", BUSY, "0"]).await.is_ok() {} });
    let seen = asking(&gateway, "it is told of", is_failing).await;
    let reason = &seen.health.reasons[0];
    let why = [
        "Redis did not answer in time.",
        "Redis came to it too late.",
    ];
    let is_told = |why| reason.starts_with(&format!("Redis gives no decisions: {why}"));
    assert!(why.iter().any(is_told), "{reason}");
    slow.abort();
    let again = asking(&gateway, "it decides again", is_well).await;
    assert_eq!(news(&again)[0], LOST_AND_BACK[0]);
    gateway.stop().await;
}

/// Such a server is left and connected to again and again.
#[tokio::test]
async fn one_that_became_a_replica_is_told_of_until_it_takes_writes() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis.url(), "it", &upstream)).await;
    asking(&gateway, "it is healthy", is_well).await;
    redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let told = asking(&gateway, "it is told of", is_failing).await;
    let later = asking(&gateway, "seconds later", |it| it.tick > told.tick + 8).await;
    let is_bad = |(_, state): &(&str, State)| *state == State::Failing;
    assert!(news(&later).iter().all(is_bad), "{:?}", later.events);
    assert!(is_failing(&later));
    redis.command(&["REPLICAOF", "NO", "ONE"]).await;
    asking(&gateway, "it decides again", is_well).await;
    gateway.stop().await;
}

#[tokio::test]
async fn one_that_answers_nothing_is_no_healthy_one() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis.url(), "it", &upstream)).await;
    asking(&gateway, "it is healthy", is_well).await;
    redis.pause().await;
    // Its connection is closed after a while; then it cannot be reached.
    let paused = asking(&gateway, "it is told of", is_failing).await;
    let reason = &paused.health.reasons[0];
    assert!(
        reason.contains("on_failure: local for few, open for guard."),
        "{reason}"
    );
    redis.resume();
    let again = asking(&gateway, "it decides again", is_well).await;
    assert_eq!(again.events[0].state, State::Ok);
    gateway.stop().await;
}

#[tokio::test]
async fn one_that_is_gone_and_comes_back_is_told_of_once() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis.url(), "it", &upstream)).await;
    asking(&gateway, "it is healthy", is_well).await;
    redis.stop();
    asking(&gateway, "it is told of", |it| {
        let mut reasons = it.health.reasons.iter();
        is_failing(it)
            && reasons.any(|it| {
                it.starts_with(
                    "Redis cannot be reached: there is no connection to Redis: 127.0.0.1:",
                )
            })
    })
    .await;
    redis.restart().await;
    let again = asking(&gateway, "it decides again", is_well).await;
    let later = asking(&gateway, "seconds later", |it| it.tick > again.tick + 6).await;
    let told = news(&later);
    // Calls may fail in a second that ends with a connection: then it gives no decisions before it cannot be reached.
    let of_redis = told.strip_prefix(&LOST_AND_BACK[..1]).unwrap_or(&told);
    assert_eq!(
        of_redis,
        [("redis", State::Failing), ("redis", State::Ok)],
        "{told:?}"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn another_secret_is_told_of() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let first = TestGateway::start(&yaml(&redis.url(), "first", &upstream)).await;
    let second = TestGateway::start(&yaml(&redis.url(), "second", &upstream)).await;
    let seen = asking(&second, "it does not decide", is_failing).await;
    let reason = &seen.health.reasons[0];
    assert!(reason.contains("use another `secret`"), "{reason}");
    assert_eq!(news(&seen), LOST_AND_BACK[..1]);
    assert!(is_well(&status(first.admin).await));
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_node_of_a_cluster_that_is_gone_is_told_of_and_all_nodes_have_metrics() {
    let cluster = RedisCluster::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&cluster.url(), "it", &upstream)).await;
    let addresses = [0, 1, 2].map(|node| cluster.node(node).addr().to_string());
    let seen = asking(&gateway, "all nodes say how they are", |it| {
        let nodes = it.store.redis.iter().flat_map(|redis| &redis.nodes);
        nodes.filter(|node| node.script_calls > Some(0)).count() > 0 && is_well(it)
    })
    .await;
    let nodes = seen.store.redis.unwrap().nodes;
    let mut named: Vec<_> = nodes.into_iter().filter_map(|node| node.address).collect();
    let mut expected = addresses.to_vec();
    named.sort();
    expected.sort();
    assert_eq!(named, expected);
    let (_, metrics) = page(gateway.admin, "/metrics").await;
    for name in ["memory_bytes", "uptime_seconds", "received_bytes_total"] {
        for address in &addresses {
            let sample = format!("\ntidegate_redis_{name}{{node=\"{address}\"}} ");
            assert!(metrics.contains(&sample), "no {sample}{metrics}");
        }
    }
    // Nobody takes its slots over.
    cluster.node(3).stop();
    cluster.node(0).stop();
    let gone = when(gateway.admin, "it is told of", |it| {
        it.health.state == State::Warning
    })
    .await;
    let reason = &gone.health.reasons[0];
    assert!(
        reason.contains("a part of the keys") && reason.contains(&addresses[0]),
        "{reason}"
    );
    assert_eq!(gone.events[0].kind, "breaker");
    gateway.stop().await;
}
