//! A Redis that answers with an error: it is full, or refuses the password. Each limit does what its `on_failure` says, and the
//! metric counts why. The log tells it once and without any secret. All is well again when Redis is.

use std::time::{Duration, Instant};

use tidegate_testkit::{Client, RedisServer, Reply, Upstream};

use crate::kit::{LONG, get, ready, sample, until};
use crate::support::GatewayProcess;

async fn gateway(url: &str, upstream: &Upstream) -> GatewayProcess {
    GatewayProcess::start(&format!(
        "
store: {{ redis: {{ url: \"{url}\", timeout: 1s }} }}
limits:
  open: {{ fixed_window: {{ limit: 1000, window: 31d }}, on_failure: open }}
  closed: {{ fixed_window: {{ limit: 1000, window: 31d }}, on_failure: closed }}
routes:
  - {{ path: /open, upstream: \"{0}\", limits: [open] }}
  - {{ path: /closed, upstream: \"{0}\", limits: [closed] }}
",
        upstream.url()
    ))
    .await
}

/// Asks until Redis decides, or does not any more.
async fn decided_by_redis(client: &Client, by_redis: bool) -> Duration {
    let began = Instant::now();
    let expected = if by_redis { 200 } else { 503 };
    until("it decides, or does not", async || {
        get(client, "/closed", &[]).await == expected
    })
    .await;
    assert_eq!(get(client, "/open", &[]).await, 200);
    began.elapsed()
}

async fn errors(gateway: &GatewayProcess, error: &str) -> u64 {
    let name = format!("tidegate_store_errors_total{{error=\"{error}\"}}");
    sample(gateway.admin, &name).await
}

async fn done(redis: &RedisServer, command: &[&str]) -> Reply {
    let reply = redis.command(command).await;
    assert!(!reply.is_error(), "{reply:?}");
    reply
}

#[tokio::test]
async fn one_that_is_full_decides_again_once_there_is_room() {
    let redis = RedisServer::start_with(&["--maxmemory", "5mb"]).await;
    let upstream = Upstream::ok();
    let gateway = gateway(&redis.url(), &upstream).await;
    let client = Client::new(gateway.address);
    decided_by_redis(&client, true).await;
    let before = errors(&gateway, "refused").await;
    // Somebody else's data, until there is no room for more.
    let full = "for i = 1, 1000 do redis.call('RPUSH', KEYS[1], string.rep('x', 4096)) end";
    let mut fills = 0;
    while !redis
        .command(&["EVAL", full, "1", "other"])
        .await
        .is_error()
    {
        fills += 1;
        assert!(fills < 10, "it is never full");
    }
    decided_by_redis(&client, false).await;
    let refused = errors(&gateway, "refused").await - before;
    assert!(refused > 0);
    done(&redis, &["DEL", "other"]).await;
    let again = decided_by_redis(&client, true).await;
    eprintln!("full: {refused} decisions refused; decides again {again:?} after there was room");
}

#[tokio::test]
async fn one_that_refuses_the_password_is_told_of_and_used_once_it_does_not() {
    let redis = RedisServer::start().await;
    done(
        &redis,
        &[
            "ACL",
            "SETUSER",
            "gate",
            "on",
            ">other-hunter2",
            "~*",
            "+@all",
        ],
    )
    .await;
    let upstream = Upstream::ok();
    let url = format!("redis://gate:hunter2@{}", redis.addr());
    let began = Instant::now();
    let mut gateway = gateway(&url, &upstream).await;
    gateway.process.wait_for_line("WRONGPASS", LONG).await;
    let told = began.elapsed();
    let client = Client::new(gateway.address);
    decided_by_redis(&client, false).await;
    assert!(errors(&gateway, "login").await > 0);

    done(&redis, &["ACL", "SETUSER", "gate", "resetpass", ">hunter2"]).await;
    let healed = decided_by_redis(&client, true).await;
    ready(gateway.admin, 200).await;

    // Changed under way: whoever is connected stays, and whoever has to connect again is refused.
    done(
        &redis,
        &["ACL", "SETUSER", "gate", "resetpass", ">other-hunter2"],
    )
    .await;
    done(&redis, &["CLIENT", "KILL", "USER", "gate"]).await;
    decided_by_redis(&client, false).await;
    done(&redis, &["ACL", "SETUSER", "gate", "resetpass", ">hunter2"]).await;
    let again = decided_by_redis(&client, true).await;
    eprintln!("told {told:?} after the start; healed after {healed:?} and {again:?}");

    gateway.process.signal("TERM");
    gateway.process.wait(LONG).await;
    let lines = gateway.process.output();
    assert!(
        lines.iter().all(|line| !line.contains("hunter2")),
        "{lines:?}"
    );
    let is_told = |line: &&String| line.contains("\"WARN\"") && line.contains("no connection");
    let told: Vec<_> = lines.iter().filter(is_told).collect();
    assert_eq!(told.len(), 2, "once each time: {told:?}");
}
