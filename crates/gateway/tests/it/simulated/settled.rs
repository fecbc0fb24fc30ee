//! What a request has come to when it is answered, and requests that wait for their turn.

use http::{Request, Response};
use tidegate_testkit::{Client, Upstream, body};

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
