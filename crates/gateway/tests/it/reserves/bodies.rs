//! Bodies that are refused, that break off, and that are not read.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_testkit::RawClient;

use super::*;
use crate::kit::{LONG, until};

/// A refused request does not reach the upstream, and the rest of its body is no request of its own.
#[tokio::test]
async fn a_refused_request_leaves_no_rest_behind() {
    let upstream = echo();
    let limit = LIMIT.replace("limit: 5000000", "limit: 100000");
    let gateway = TestGateway::start(&one_limit("store: memory\n", &limit, &upstream)).await;
    let mut raw = RawClient::connect(gateway.address).await;
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n";
    let request = |units: u64, rest: &str| {
        let body = format!("{{\"max_tokens\":{units},\"x\":\"");
        let length = body.len() + rest.len();
        format!(
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-type: {JSON}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    raw.send(request(99_999, smuggled) + smuggled)
        .await
        .unwrap();
    assert_eq!(raw.response(LONG).await.unwrap().status(), 200);
    raw.send(request(500, smuggled)).await.unwrap();
    assert_eq!(raw.response(LONG).await.unwrap().status(), 429);
    let _ = raw.send(smuggled).await;
    raw.read_to_close(Duration::from_secs(2)).await;
    assert_eq!(upstream.count(), 1);
    assert!(
        !upstream
            .requests()
            .iter()
            .any(|it| it.target.contains("smuggled"))
    );
    gateway.stop().await;
}

/// A body that breaks off while its beginning is read is never passed on as a whole one.
#[tokio::test]
async fn a_body_that_breaks_off_is_not_passed_on_whole() {
    let whole = Arc::new(Mutex::new(Vec::new()));
    let seen = whole.clone();
    let upstream = Upstream::start(move |request| {
        let seen = seen.clone();
        async move {
            if let Ok(body) = request.into_body().collect().await {
                seen.lock().unwrap().push(body.to_bytes());
            }
            Response::new(empty())
        }
    });
    let gateway = TestGateway::start(&one_limit("store: memory\n", LIMIT, &upstream)).await;
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-type: {JSON}\r\n");
    let mut left = RawClient::connect(gateway.address).await;
    let request = format!("{head}content-length: 100\r\n\r\n{{\"x\":");
    left.send(request).await.unwrap();
    left.reset();
    let mut ended = RawClient::connect(gateway.address).await;
    let request = format!("{head}content-length: 100\r\n\r\n{{\"x\":");
    ended.send(request).await.unwrap();
    ended.finish().await;
    ended.read_to_close(LONG).await;
    let mut broken = RawClient::connect(gateway.address).await;
    let request = format!("{head}transfer-encoding: chunked\r\n\r\n5\r\n{{\"x\":\r\nzz\r\n");
    broken.send(request).await.unwrap();
    broken.read_to_close(LONG).await;
    let client = Client::new(gateway.address);
    let answer = client.request(post(JSON, "{}")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(*whole.lock().unwrap(), ["{}"]);
    gateway.stop().await;
}

/// A request that is refused in any case, or whose body is too large, is not asked for its body.
#[tokio::test]
async fn a_body_that_does_not_matter_is_not_read() {
    let upstream = echo();
    let yaml = one_limit("store: memory\n", LIMIT, &upstream);
    for (more, status) in [("deny: [127.0.0.1]\n", 403), ("max_body: 10\n", 413)] {
        let gateway = TestGateway::start(&format!("{more}{yaml}")).await;
        let mut raw = RawClient::connect(gateway.address).await;
        let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 20\r\n";
        let head = format!("{head}content-type: {JSON}\r\n\r\n");
        raw.send(head).await.unwrap();
        assert_eq!(raw.response(LONG).await.unwrap().status(), status);
        gateway.stop().await;
    }
    assert_eq!(upstream.count(), 0);
}

/// One address does not take all places for the beginnings of bodies, and a request without a place reserves the most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_places_for_bodies_are_shared_by_address() {
    let upstream = echo();
    let gateway = TestGateway::start(&one_limit("store: memory\n", LIMIT, &upstream)).await;
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 30\r\n";
    let stalls = format!("{head}content-type: {JSON}\r\n\r\n{{");
    let mut stalled = Vec::new();
    for _ in 0..300 {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(&stalls).await.unwrap();
        stalled.push(raw);
    }
    let [greedy, other] =
        [1, 2].map(|last| Client::new(gateway.address).from_ip([127, 0, 0, last]));
    let request = || post(JSON, r#"{"max_tokens":500}"#);
    let left = Cell::new(5_000_000);
    until("the greedy address has no place", async || {
        let mut before = left.get();
        let units = reserved(&mut before, &greedy.request(request()).await);
        left.set(before);
        units == 100_000
    })
    .await;
    let answer = other.request(request()).await;
    assert_eq!(reserved(&mut 5_000_000, &answer), 500);
    drop(stalled);
    gateway.stop().await;
}
