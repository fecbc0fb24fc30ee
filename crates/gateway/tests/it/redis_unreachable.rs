//! A Redis that cannot be ok: the log says so from the start and when it is over, and `check --connect` tries.

use tidegate_testkit::{Authority, Client, RedisServer, Upstream};

use crate::kit::{LONG, get, sample, until};
use crate::support::GatewayProcess;
use crate::support::commands::{Ended, ended_beside, tidegate, written};

fn yaml(redis: &str, upstream: &str) -> String {
    format!(
        "
store: {{ redis: {{ url: \"{redis}\" }} }}
limits: {{ it: {{ fixed_window: {{ limit: 1000, window: 31d }}, on_failure: open }} }}
routes: [{{ path: /**, upstream: \"{upstream}\", limits: [it] }}]
"
    )
}

async fn is_up(gateway: &GatewayProcess, up: u64) {
    until("the metric follows", async || {
        sample(gateway.admin, "tidegate_redis_up").await == up
    })
    .await;
}

#[tokio::test]
async fn one_that_is_not_there_at_start_is_told_without_any_request() {
    let redis = RedisServer::start().await;
    redis.stop();
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&yaml(&redis.url(), &upstream.url())).await;
    let line = gateway
        .process
        .wait_for_line("Redis cannot be reached", LONG)
        .await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "WARN");
    let refused = format!("{}: connection refused", redis.addr());
    let expected = format!("there is no connection to Redis: {refused}");
    assert_eq!(line["error"], *expected);
    // What its share of each limit is, too.
    let line = gateway.process.wait_for_line("the whole quota", LONG).await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "WARN");
    is_up(&gateway, 0).await;
    redis.restart().await;
    gateway
        .process
        .wait_for_line("Redis is reached again", LONG)
        .await;
    let line = gateway
        .process
        .wait_for_line("the gateways on this Redis are counted", LONG)
        .await;
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["gateways"], 1);
    is_up(&gateway, 1).await;
    assert_eq!(get(&Client::new(gateway.address), "/", &[]).await, 200);
}

#[tokio::test]
async fn one_that_goes_away_is_told_once_and_again_when_it_is_back() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&yaml(&redis.url(), &upstream.url())).await;
    is_up(&gateway, 1).await;
    for nth in 1..=2 {
        redis.stop();
        let lost = "Redis cannot be reached";
        gateway.process.wait_for_nth_line(lost, nth, LONG).await;
        redis.restart().await;
        let back = "Redis is reached again";
        gateway.process.wait_for_nth_line(back, nth, LONG).await;
    }
    let output = gateway.process.output();
    let warnings = output
        .iter()
        .filter(|line| line.contains("cannot be reached"));
    assert_eq!(warnings.count(), 2, "{output:?}");
}

/// Status, standard output and standard error of `tidegate check`, run while this test's servers go on.
pub(crate) async fn check(yaml: &str, options: &[&str]) -> Ended {
    let (_folder, file) = written(&format!(
        "secret: none-but-a-test
{yaml}"
    ));
    let mut command = tidegate(&["check"]);
    command.args(options).arg("-c").arg(&file);
    ended_beside(command).await
}

#[tokio::test]
async fn check_says_that_redis_was_not_tried() {
    let (status, out, err) = check(&yaml("redis://127.0.0.1:1", "http://127.0.0.1:1"), &[]).await;
    assert_eq!((status, &*err), (Some(0), ""));
    assert!(
        out.ends_with("Redis was not tried: `tidegate check --connect` does\n"),
        "{out}"
    );
}

#[tokio::test]
async fn check_connects_to_redis_upstreams_and_key_sets() {
    let redis = RedisServer::start_with(&["--requirepass", "right"]).await;
    let (upstream, gone) = (Upstream::ok(), Upstream::ok());
    gone.stop().await;
    let port = redis.port();
    let store = |password: &str| format!("redis://:{password}@127.0.0.1:{port}");
    let reached = format!("\nok: Redis\nok: upstream {}\n", upstream.url());
    let (status, out, err) = check(&yaml(&store("right"), &upstream.url()), &["--connect"]).await;
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    assert!(out.ends_with(&reached), "{out}");

    let keys = format!("{}/keys.json", upstream.url());
    let jwt = format!(
        "clients: [{{ jwt: {{ jwks_url: \"{keys}\", algorithms: [ES256] }} }}, {{ ip: {{}} }}]"
    );
    let wrong = format!("{}{jwt}\n", yaml(&store("wrong"), &gone.url()));
    let (status, out, err) = check(&wrong, &["--connect"]).await;
    assert_eq!(
        (status, &*err),
        (Some(1), "error: 3 of 3 connections failed\n"),
        "{out}"
    );
    let lines: Vec<_> = out
        .lines()
        .skip_while(|line| !line.starts_with("failed"))
        .collect();
    let [at_redis, at_upstream, at_keys] = lines[..] else {
        panic!("not three lines: {out}");
    };
    assert!(
        at_redis.starts_with("failed: Redis: ") && at_redis.contains("WRONGPASS"),
        "{out}"
    );
    let refused = format!("failed: upstream {}: ", gone.url());
    assert!(
        at_upstream.starts_with(&refused) && at_upstream.contains("refused"),
        "{out}"
    );
    assert!(
        at_keys.starts_with(&format!("failed: key set {keys}: ")),
        "{out}"
    );
    assert!(!out.contains("wrong@"), "a password is printed: {out}");
}

#[tokio::test]
async fn check_says_what_is_wrong_with_tls_to_an_upstream() {
    let upstream = Upstream::ok();
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority.pem");
    std::fs::write(&authority, Authority::new().pem()).unwrap();
    let address = upstream.addr();
    let yaml = format!(
        "
upstreams:
  api: {{ servers: [\"https://localhost:{}\"], tls: {{ ca: \"{}\" }} }}
routes: [{{ path: /**, upstream: api }}]
",
        address.port(),
        authority.display()
    );
    let (status, out, _) = check(&yaml, &["--connect"]).await;
    assert_eq!(status, Some(1), "{out}");
    assert!(
        out.contains("failed: upstream api: https://localhost:"),
        "{out}"
    );
}
