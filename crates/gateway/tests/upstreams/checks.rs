//! Servers are asked whether they are well.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tidegate_testkit::{Client, Speaks, Upstream, body};

use crate::group::{becomes, gateway, metric};

const IN: &str = "state=\"healthy\"";
const OUT: &str = "state=\"unhealthy\"";
const HEALTH: &str = "health: { path: /healthz?full, every: 10ms, timeout: 5s, healthy_after: 2, unhealthy_after: 2 }";

/// A server whose checks are answered with the status that is set, and all else with 200.
fn checked(speaks: Speaks) -> (Upstream, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let answers = status.clone();
    let server = Upstream::speaking(speaks, move |request: Request<Incoming>| {
        let is_check = request.uri().path_and_query().unwrap() == "/healthz?full";
        let status = answers.load(Ordering::Relaxed);
        async move {
            let mut answer = http::Response::new(body::full("answer"));
            if is_check {
                *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            }
            answer
        }
    });
    (server, status)
}

fn served(server: &Upstream) -> usize {
    let arrived = server.requests();
    arrived
        .iter()
        .filter(|request| request.target == "/")
        .count()
}

#[tokio::test]
async fn a_server_that_fails_its_checks_gets_nothing_until_it_passes() {
    for speaks in [Speaks::Http1, Speaks::Http2] {
        let (uneven, status) = checked(speaks.clone());
        let (good, _) = checked(speaks);
        let gateway = gateway(&[uneven.url(), good.url()], HEALTH, "").await;
        let client = Client::new(gateway.address);
        status.store(503, Ordering::Relaxed);
        becomes(&gateway, "servers", OUT, 1).await;
        let before = served(&uneven);
        for _ in 0..10 {
            assert_eq!(client.get("/").await.status, 200);
        }
        assert_eq!(served(&uneven), before);
        // A redirection is a good answer.
        status.store(302, Ordering::Relaxed);
        becomes(&gateway, "servers", IN, 2).await;
        for _ in 0..10 {
            assert_eq!(client.get("/").await.status, 200);
        }
        assert_eq!(served(&uneven), before + 5);
        assert!(metric(&gateway, "checks_total", "outcome=\"failed\"").await >= 1);
        assert!(metric(&gateway, "checks_total", "outcome=\"passed\"").await >= 4);
    }
}

#[tokio::test]
async fn when_all_are_down_the_answer_is_503_with_retry_after() {
    let (first, second) = (checked(Speaks::Http1), checked(Speaks::Http1));
    first.1.store(500, Ordering::Relaxed);
    let health = HEALTH.replace("every: 10ms", "every: 1100ms");
    let gateway = gateway(&[first.0.url(), second.0.url()], &health, "").await;
    becomes(&gateway, "servers", OUT, 1).await;
    second.0.stop().await;
    let client = Client::new(gateway.address);
    becomes(&gateway, "servers", OUT, 2).await;
    let answer = client.get("/").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("2"));
    assert!(answer.text().contains("upstream_down"), "{}", answer.text());
    assert_eq!(served(&first.0), 0);
    second.0.restart();
    becomes(&gateway, "servers", IN, 1).await;
    assert_eq!(client.get("/").await.status, 200);
}

/// A check that finds a server hung takes it out as one that finds it gone.
#[tokio::test]
async fn no_answer_is_a_bad_one() {
    let hung = crate::group::hanging();
    let (good, _) = checked(Speaks::Http1);
    let health = HEALTH.replace("timeout: 5s", "timeout: 200ms");
    let gateway = gateway(&[hung.url(), good.url()], &health, "").await;
    becomes(&gateway, "servers", OUT, 1).await;
    let client = Client::new(gateway.address);
    for _ in 0..6 {
        assert_eq!(client.get("/").await.status, 200);
    }
}
