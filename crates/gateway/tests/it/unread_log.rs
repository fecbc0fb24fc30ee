//! A log that nobody reads: requests are served, memory stays bounded, the end comes in time, and whoever reads again is
//! told what is missing.

use std::net::TcpListener;
use std::process::Command;

use http::Method;
use tidegate_testkit::{Client, Port, Process, RedisServer, Upstream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::access_log::access_lines;
use crate::kit::{LONG, get, get_each, sample, send, until};
use crate::support::GatewayProcess;

/// More than a pipe and the buffers at its ends hold.
const FULL: usize = 256 * 1024;

/// Requests until standard error, which nobody reads, takes no more.
async fn fill(gateway: &GatewayProcess) {
    gateway.process.read_output(false);
    let client = Client::new(gateway.address);
    let path = format!("/{}", "x".repeat(1_000));
    get_each(&client, FULL / path.len(), &path, &[], 404).await;
}

/// A command whose standard output and standard error are full before it begins.
fn with_full_pipes(arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    let script = "head -c 65536 /dev/zero >&2; head -c 65536 /dev/zero; exec \"$@\"";
    let binary = std::env::var("TIDEGATE_BINARY");
    let binary = binary.unwrap_or(env!("CARGO_BIN_EXE_tidegate").into());
    command.args(["-c", script, "sh", &binary]).args(arguments);
    command
}

#[tokio::test]
async fn no_thread_waits_for_it_and_the_process_ends() {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&format!(
        "routes: [{{ path: /api, upstream: \"{}\" }}]\n",
        upstream.url()
    ))
    .await;
    fill(&gateway).await;
    // Each of these writes a line of the log itself, on whatever thread serves it.
    for _ in 0..8 {
        // No more at once than the admin port takes from one address.
        let mut resets = JoinSet::new();
        for _ in 0..8 {
            let client = Client::fresh(gateway.admin);
            resets.spawn(async move {
                let reset = send(&client, Method::POST, "/clients/ip:127.0.0.1/reset", &[]);
                timeout(LONG, reset).await.unwrap().status.as_u16()
            });
        }
        assert_eq!(resets.join_all().await, [200; 8]);
    }
    // So does a configuration that is refused.
    gateway.write("nonsense");
    gateway.process.signal("HUP");
    let refused = "tidegate_config_reloads_total{outcome=\"refused\"}";
    let counting = until("a reload is refused", async || {
        sample(gateway.admin, refused).await > 0
    });
    timeout(LONG, counting).await.unwrap();
    let client = Client::new(gateway.address);
    for _ in 0..20 {
        let answer = timeout(LONG, get(&client, "/api", &[])).await;
        assert_eq!(answer, Ok(200));
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
}

/// A Redis that is killed and comes back makes the threads that serve write warnings.
#[tokio::test]
async fn redis_comes_and_goes_and_requests_are_served() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 100ms }} }}
limits: {{ it: {{ fixed_window: {{ limit: 1000000, window: 31d }}, on_failure: open }} }}
routes: [{{ path: /api, upstream: \"{}\", limits: [it] }}]
",
        redis.url(),
        upstream.url()
    ))
    .await;
    fill(&gateway).await;
    let client = Client::new(gateway.address);
    let store = "tidegate_decisions_total{limit=\"it\",verdict=\"allowed\",decided_by=\"store\"}";
    for _ in 0..3 {
        redis.stop();
        for _ in 0..20 {
            assert_eq!(timeout(LONG, get(&client, "/api", &[])).await, Ok(200));
        }
        redis.restart().await;
        let before = sample(gateway.admin, store).await;
        until("Redis decides again", async || {
            assert_eq!(timeout(LONG, get(&client, "/api", &[])).await, Ok(200));
            sample(gateway.admin, store).await > before
        })
        .await;
    }
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_bounded_and_what_is_lost_is_counted_and_reported() {
    const REQUESTS: usize = 8_000;
    const CLIENTS: usize = 4;
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::start(&format!(
        "
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes: [{{ path: /**, upstream: \"{}\", limits: [one] }}]
",
        upstream.url()
    ))
    .await;
    let path = format!("/{}", "x".repeat(8_000));
    assert_eq!(get(&Client::new(gateway.address), &path, &[]).await, 200);
    gateway.process.read_output(false);
    let before = gateway.process.rss_kb();
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, path) = (Client::new(gateway.address), path.clone());
        clients.spawn(async move {
            get_each(&client, REQUESTS / CLIENTS, &path, &[], 429).await;
        });
    }
    clients.join_all().await;
    // 8 MiB of records, twice 2 MiB of lines, and what serving takes; the paths alone were 64 MB.
    let grown = gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 32 * 1024, "grown by {grown} KiB");
    let dropped = sample(gateway.admin, "tidegate_access_log_dropped_lines_total").await;
    assert!(dropped > 0);

    gateway.process.read_output(true);
    let reports = " lines lost\"";
    gateway.process.wait_for_line(reports, LONG).await;
    let written = REQUESTS + 1 - usize::try_from(dropped).unwrap();
    let access = "\"path\":";
    gateway
        .process
        .wait_for_nth_line(access, written, LONG)
        .await;
    gateway.process.signal("TERM");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    gateway.process.wait_for_line("\"stopped\"", LONG).await;
    let lines = access_lines(&gateway);
    let reported: u64 = lines.iter().filter_map(|line| line["lost"].as_u64()).sum();
    let lines = lines.iter().filter(|line| line["path"].is_string());
    assert_eq!(lines.count(), written);
    assert_eq!(reported, dropped);
}

#[tokio::test]
async fn a_command_that_fails_ends_though_nobody_reads_why() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let yaml = format!(
        "listen: {}\nadmin: 127.0.0.1:0\nroutes: [{{ path: /, upstream: \"http://127.0.0.1:1\" }}]\n",
        taken.local_addr().unwrap()
    );
    std::fs::write(&file, yaml).unwrap();
    let mut process = Process::spawn(with_full_pipes(&["run", "-c", file.to_str().unwrap()]));
    process.read_output(false);
    assert_eq!(process.wait(LONG).await.code(), Some(1));
}

/// What it prints first is for people, who may not be there.
#[tokio::test]
async fn the_demo_serves_though_nobody_reads_what_it_prints() {
    let port = Port::reserve();
    let mut command = with_full_pipes(&["demo"]);
    command
        .env("TIDEGATE_LISTEN", port.addr().to_string())
        .env("TIDEGATE_ADMIN", "127.0.0.1:0");
    let mut process = Process::spawn(command);
    process.read_output(false);
    until("the demo listens", async || {
        tokio::net::TcpStream::connect(port.addr()).await.is_ok()
    })
    .await;
    let client = Client::new(port.addr());
    assert_eq!(timeout(LONG, get(&client, "/", &[])).await, Ok(200));
    process.signal("TERM");
    assert_eq!(process.wait(LONG).await.code(), Some(0));
}
