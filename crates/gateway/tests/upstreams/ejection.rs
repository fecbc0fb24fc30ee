//! Servers that fail are left out for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_testkit::{Action, Client, RawUpstream, Upstream, When, body};

use crate::group::{answering, becomes, counts, gateway, metric, written, yaml};

const OUT: &str = "state=\"ejected\"";
const IN: &str = "state=\"healthy\"";

#[tokio::test]
async fn a_server_that_answers_500_is_left_out() {
    let (good, bad) = (Upstream::ok(), answering(500));
    let upstream = "eject: { after: 3, for: 1h }";
    let gateway = gateway(&[bad.url(), good.url()], upstream, "").await;
    let client = Client::new(gateway.address);
    let mut failed = 0;
    for _ in 0..20 {
        failed += usize::from(client.get("/").await.status == 500);
    }
    assert_eq!((failed, bad.count()), (3, 3));
    assert_eq!(metric(&gateway, "servers", OUT).await, 1);
    assert_eq!(metric(&gateway, "servers", IN).await, 1);
    assert_eq!(metric(&gateway, "ejections_total", "").await, 1);
}

/// Those that answer 4xx, or succeed in between, are well.
#[tokio::test]
async fn only_failures_in_a_row_count() {
    let turn = Arc::new(AtomicU16::new(0));
    let uneven = Upstream::start(move |_| {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        async move {
            let mut answer = http::Response::new(body::full("answer"));
            if turn % 3 != 2 {
                *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            }
            answer
        }
    });
    let servers = [uneven, answering(404)];
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "eject: { after: 3, for: 1h }", "").await;
    let client = Client::new(gateway.address);
    for _ in 0..24 {
        client.get("/").await;
    }
    assert_eq!(counts(&servers.each_ref()), [12, 12]);
    assert_eq!(metric(&gateway, "servers", IN).await, 2);
}

#[tokio::test]
async fn it_is_tried_again_when_its_time_is_over() {
    let status = Arc::new(AtomicU16::new(500));
    let answers = status.clone();
    let uneven = Upstream::start(move |_| {
        let status = answers.load(Ordering::Relaxed);
        async move {
            let mut answer = http::Response::new(body::full("answer"));
            *answer.status_mut() = StatusCode::from_u16(status).unwrap();
            answer
        }
    });
    let good = Upstream::ok();
    let upstream = "eject: { after: 2, for: 50ms }";
    let gateway = gateway(&[uneven.url(), good.url()], upstream, "").await;
    let client = Client::new(gateway.address);
    // The last is ejected for a while; then one more failure is enough.
    while metric(&gateway, "ejections_total", "").await < 2 {
        client.get("/").await;
    }
    assert_eq!(uneven.count(), 3, "one failure ejects it again");
    status.store(200, Ordering::Relaxed);
    becomes(&gateway, "servers", IN, 2).await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!(uneven.count(), 3 + 5);
    assert_eq!(metric(&gateway, "ejections_total", "").await, 2);
}

#[tokio::test]
async fn never_are_all_left_out() {
    for (at_most, out) in [("1%", 1), ("50%", 2), ("100%", 3)] {
        let servers = [500; 4].map(answering);
        let urls = servers.each_ref().map(Upstream::url);
        let upstream = format!("eject: {{ after: 1, for: 1h, at_most: {at_most} }}");
        let gateway = gateway(&urls, &upstream, "").await;
        let client = Client::new(gateway.address);
        for _ in 0..20 {
            assert_eq!(client.get("/").await.status, 500);
        }
        assert_eq!(metric(&gateway, "servers", OUT).await, out, "{at_most}");
        assert_eq!(metric(&gateway, "servers", IN).await, 4 - out, "{at_most}");
    }
}

#[tokio::test]
async fn none_is_left_out_of_one_or_where_nobody_wants_it() {
    let alone = answering(500);
    let first = gateway(&[alone.url()], "eject: { after: 1, for: 1h }", "").await;
    let pair = [answering(500), answering(500)];
    let urls = pair.each_ref().map(Upstream::url);
    let second = gateway(&urls, "eject: none", "").await;
    for gateway in [&first, &second] {
        let client = Client::new(gateway.address);
        for _ in 0..20 {
            assert_eq!(client.get("/").await.status, 500);
        }
        assert_eq!(metric(gateway, "ejections_total", "").await, 0);
    }
    assert_eq!(counts(&pair.each_ref()), [10, 10]);
}

/// What is known of servers outlives a reload that leaves their upstream as it is, and no other.
#[tokio::test]
async fn a_reload_forgets_no_ejection() {
    let (good, bad) = (Upstream::ok(), answering(500));
    let servers = format!("\"{}\", \"{}\"", bad.url(), good.url());
    let upstream = "eject: { after: 1, for: 1h }";
    let gateway = written(&servers, upstream, "").await;
    let client = Client::new(gateway.address);
    while [bad.count(), good.count()].contains(&0) {
        client.get("/").await;
    }
    let connections = good.connections();
    gateway
        .reload(&yaml(&servers, upstream, "max_body: 1KB"))
        .await;
    for _ in 0..10 {
        assert_eq!(client.get("/").await.status, 200);
    }
    assert_eq!((bad.count(), good.connections()), (1, connections));
    assert_eq!(metric(&gateway, "servers", OUT).await, 1);
    gateway
        .reload(&yaml(&servers, "eject: { after: 1, for: 2h }", ""))
        .await;
    assert_eq!(metric(&gateway, "servers", OUT).await, 0);
    while bad.count() == 1 {
        client.get("/").await;
    }
}

/// A server may close a connection that was idle just when a request comes: that is no failure of the server.
#[tokio::test]
async fn a_server_that_closes_an_idle_connection_is_well() {
    let closing = || {
        RawUpstream::start(When::Request, |turn| match turn.request {
            0 => vec![Action::send(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            )],
            _ => vec![Action::Close],
        })
    };
    let servers = [closing(), closing()];
    let urls = servers.each_ref().map(RawUpstream::url);
    let gateway = gateway(&urls, "eject: { after: 1, for: 1h }", "").await;
    let client = Client::new(gateway.address);
    for _ in 0..2 {
        assert_eq!(client.post("/", "body").await.status, 200);
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    for _ in 0..2 {
        assert_eq!(client.post("/", "body").await.status, 502);
    }
    assert_eq!(metric(&gateway, "ejections_total", "").await, 0);
}
