//! Limits that count what runs, or learn afterwards what a request has come to.

use http::{Request, StatusCode};
use tidegate_testkit::{Client, Speaks, body};
use tokio::task::JoinSet;

use super::start;
use crate::support::held::held_one_by_one;

/// Three requests at once where two may run, again and again; between two rounds one or two of them end.
async fn rounds(action: &str) {
    let (upstream, gate) = held_one_by_one(Speaks::Http1);
    let limits = format!(
        "  running: {{ concurrency: {{ limit: 2 }}{action} }}
  bucket: {{ token_bucket: {{ capacity: 100, refill: 50/s }}{action} }}
  few: {{ fixed_window: {{ limit: 30, window: 1d }}{action} }}"
    );
    let routes = format!(
        "  - {{ path: /**, upstream: {}, limits: [running, bucket, few] }}",
        upstream.url()
    );
    let (gateway, recording) = start("store: memory", &limits, &routes).await;
    let address = gateway.address;
    let mut running = JoinSet::new();
    let mut admitted = 0;
    for round in 0..30 {
        let before = upstream.count();
        let mut decided = 0;
        for _ in 0..3 {
            running.spawn(async move {
                let client = Client::new(address);
                let request = Request::get("/").header("x-user-id", "u");
                client
                    .request(request.body(body::empty()).unwrap())
                    .await
                    .status
            });
        }
        // All three are decided: they are refused, or have arrived.
        let mut ends = 0;
        while decided < 3 {
            let arrived = upstream.count() - before;
            tokio::select! {
                Some(status) = running.join_next() => {
                    assert_eq!(status.unwrap(), StatusCode::TOO_MANY_REQUESTS);
                    ends += 1;
                }
                () = upstream.wait_for(before + arrived + 1, crate::kit::LONG) => {}
            }
            decided = ends + upstream.count() - before;
        }
        admitted += upstream.count() - before;
        let ending = match round % 3 {
            0 => 1,
            _ => admitted,
        };
        let ending = ending.min(admitted);
        gate.add_permits(ending);
        for _ in 0..ending {
            assert_eq!(running.join_next().await.unwrap().unwrap(), StatusCode::OK);
        }
        admitted -= ending;
    }
    gate.add_permits(admitted);
    running.join_all().await;
    gateway.stop().await;
    recording.agree(&["running", "few"]);
}

#[tokio::test]
async fn slots_are_taken_and_freed_as_they_were() {
    rounds("").await;
}

#[tokio::test]
async fn slots_that_are_only_observed_are_taken_and_freed_as_they_were() {
    rounds(", action: observe").await;
}
