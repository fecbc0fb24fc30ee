//! What a request has come to when it is answered, requests that wait, and an end before that of the log.

use std::io::Write as _;
use std::process::{Command, Stdio};

use http::{Request, Response};
use serde_json::Value;
use tidegate_testkit::{Client, Upstream, body};

use super::edges::Folder;
use super::start;

/// An upstream whose answers have a status and a cost by the path.
fn telling() -> Upstream {
    Upstream::start(|request| async move {
        let path = request.uri().path();
        let status = if path.contains("fails") { 404 } else { 200 };
        let answer = Response::builder().status(status);
        let answer = answer.header("x-cost", (2 + path.len() % 7).to_string());
        answer.body(body::full("ok")).unwrap()
    })
}

/// One request after the other, so that each is settled before the next one comes.
#[tokio::test]
async fn answers_settle_what_was_reserved() {
    for action in ["", ", action: observe"] {
        let upstream = telling();
        let limits = format!(
            "  failures: {{ fixed_window: {{ limit: 2, window: 1d }}, count: {{ status: [404] }}{action} }}
  told: {{ token_bucket: {{ capacity: 60, refill: 20/s }}, cost: {{ response_header: X-Cost, reserve: 6 }}{action} }}"
        );
        let routes = format!(
            "  - {{ path: /**, upstream: {}, limits: [failures, told] }}",
            upstream.url()
        );
        let (gateway, recording) = start("store: memory", &limits, &routes).await;
        let client = Client::new(gateway.address).knows("x-cost");
        for nth in 0..60 {
            let what = if nth % 4 == 1 { "fails" } else { "works" };
            let path = format!("/{what}/{}", "x".repeat(nth % 9));
            let request = Request::get(path).header("x-user-id", ["a", "b"][nth % 2]);
            client.request(request.body(body::empty()).unwrap()).await;
        }
        gateway.stop().await;
        recording.agree(&["failures", "told"]);
    }
}

/// Requests of a `leaky_bucket` wait for their turns; what is decided does not depend on that.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_wait_in_a_queue_are_admitted_as_they_were() {
    let upstream = Upstream::ok();
    let limits = "  queue: { leaky_bucket: { queue: 4, drain: 50/s } }
  running: { concurrency: { limit: 100 } }";
    let routes = format!(
        "  - {{ path: /**, upstream: {}, limits: [queue, running] }}",
        upstream.url()
    );
    let (gateway, recording) = start("store: memory", limits, &routes).await;
    let senders = (0..6).map(|_| {
        let client = Client::new(gateway.address);
        tokio::spawn(async move {
            for _ in 0..25 {
                let request = Request::get("/").header("x-user-id", "u");
                client.request(request.body(body::empty()).unwrap()).await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    gateway.stop().await;
    recording.agree(&["queue"]);
}

#[test]
fn an_interrupt_prints_what_is_known_so_far() {
    let folder = Folder::new();
    let config = folder.config(
        "gateway.yaml",
        "  it: { fixed_window: { limit: 9, window: 1h } }",
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["simulate", "--json", "-c"])
        .arg(config)
        .arg("-");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut input = running.stdin.take().unwrap();
    let line =
        "192.0.2.1 - - [22/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"\n";
    let block = line.repeat(10_000);
    // What no pipe holds: it was read.
    input.write_all(block.as_bytes()).unwrap();
    let kill = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    // An endless log, until nobody reads it any more.
    while input.write_all(block.as_bytes()).is_ok() {}
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["log"]["stopped"], true);
    let requests = report["configurations"][0]["requests"].as_u64().unwrap();
    assert!(requests > 0, "{report:#}");
}
