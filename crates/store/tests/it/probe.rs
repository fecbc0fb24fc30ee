//! Decisions of no client: they fail where requests would, and leave nothing behind.

use std::time::Duration;

use tidegate_core::Block;
use tidegate_store::{Limit, Mode};
use tidegate_testkit::{RedisCluster, RedisServer, Reply};

use crate::support::{SECOND, calls, code_of, connect, every_algorithm, limit, wait_for};
use crate::topologies::{COMMANDS, allow};

const TIMEOUT: Duration = Duration::from_secs(5);

/// A limit of each algorithm, and each way that has commands of its own.
fn limits() -> Vec<Limit> {
    let quotas = every_algorithm(5, 3_600 * SECOND);
    let block = Block {
        span: SECOND,
        extend: false,
    };
    let mut limits = quotas.map(|quota| limit("it", quota)).to_vec();
    limits.push(limit("blocking", quotas[2]).blocking(block));
    limits.push(limit("reserving", quotas[0]).reserving(SECOND));
    limits.push(limit("leased", quotas[0]).in_mode(Mode::Leased));
    limits.push(limit("synced", quotas[2]).in_mode(Mode::Synced));
    limits
}

/// Connects as a user who may do this and no more.
async fn checked(server: &RedisServer, commands: &str, limits: &[Limit]) -> Result<(), String> {
    allow(server, commands).await;
    let url = format!("redis://gate:hunter2@{}", server.addr());
    let store = connect(&url, TIMEOUT).await;
    let checked = store.check(limits.iter()).await;
    checked.map_err(|unfit| unfit.to_string())
}

#[tokio::test]
async fn a_probe_of_every_kind_of_limit_leaves_nothing_behind() {
    let server = RedisServer::start().await;
    assert_eq!(checked(&server, COMMANDS, &limits()).await, Ok(()));
    wait_for("a Redis with no other key than a heartbeat", async || {
        let keys = server.command(&["KEYS", "*"]).await;
        let mut keys = keys.as_array().iter().map(Reply::as_str);
        // The heartbeat of a check lives for two lapses.
        keys.all(|key| key == "tidegate:probe:gateways")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_command_that_the_user_lacks_is_found_by_the_limits_that_need_it() {
    let server = RedisServer::start().await;
    let all = limits();
    for (lacks, kind, names_it) in [
        ("evalsha", 2, true),
        ("set", 2, false),
        ("time", 0, false),
        ("rpush", 3, false),
        ("zadd", 6, false),
        ("zrem", 8, false),
        ("hgetall", 9, false),
        ("hget", 10, false),
    ] {
        let commands = format!("{COMMANDS} -{lacks}");
        let one = &all[kind..=kind];
        let checked = checked(&server, &commands, one).await;
        let error = checked.expect_err(lacks);
        assert!(error.starts_with("Redis answered "), "{lacks}: {error}");
        let remedy = match names_it {
            true => format!("grant the user `+{lacks}`"),
            false => "grant the user ".to_owned(),
        };
        assert!(error.contains(&remedy), "{lacks}: {error}");
    }
    // No other limit needs it.
    let commands = format!("{COMMANDS} -rpush");
    assert_eq!(checked(&server, &commands, &all[..3]).await, Ok(()));
}

#[tokio::test]
async fn readiness_asks_once_a_second_however_often_it_is_asked_for() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let limits = [limit("it", every_algorithm(5, SECOND)[2])];
    let scripts = async || {
        let calls = calls(&server).await;
        let of = |name: &str| calls.get(name).copied().unwrap_or(0);
        of("evalsha") + of("eval")
    };
    let began = std::time::Instant::now();
    for _ in 0..200 {
        assert_eq!(store.ready(limits.iter()).await, Ok(()));
    }
    let seconds = began.elapsed().as_secs();
    let asked = scripts().await;
    // Two keys each time, and the first script is sent by its text as well.
    assert!(asked <= 3 + 2 * seconds, "{asked} calls in {seconds} s");

    // Whatever decides nothing is not ready, and the open breaker does not hide why.
    server
        .command(&["ACL", "SETUSER", "default", "-evalsha"])
        .await;
    for _ in 0..10 {
        let decision = store
            .decide(&[crate::support::charge(&limits[0], 1, 1)])
            .await;
        assert!(decision.call.unwrap().error.is_some());
    }
    let error = wait_for("a probe", async || store.ready(limits.iter()).await.err()).await;
    assert_eq!(code_of(&error), Some("NOPERM"));
    assert!(error.to_string().contains("`+evalsha`"), "{error}");
    server
        .command(&["ACL", "SETUSER", "default", "+@all"])
        .await;
    wait_for("permission", async || store.ready(limits.iter()).await.ok()).await;
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_single_server() {
    let cluster = RedisCluster::start().await;
    let limits = [limit("it", every_algorithm(5, SECOND)[2])];
    for nth in cluster.primaries().await {
        let store = connect(&cluster.node(nth).url(), TIMEOUT).await;
        let error = store.ready(limits.iter()).await.unwrap_err();
        assert_eq!(code_of(&error), Some("MOVED"));
        assert!(error.to_string().contains("redis-cluster://"), "{error}");
    }
    let store = connect(&cluster.url(), TIMEOUT).await;
    store.check(limits.iter()).await.unwrap();
}
