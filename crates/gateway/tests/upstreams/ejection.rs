//! Servers that fail are left out for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use http::StatusCode;
use tidegate_testkit::{Action, Client, RawUpstream, Upstream, When, body};
use tokio::task::JoinSet;

use crate::group::{answering, becomes, counts, gateway, metric, written, yaml};
use crate::support::asking::get_each;

const OUT: &str = "state=\"ejected\"";
const IN: &str = "state=\"healthy\"";

#[tokio::test]
async fn a_server_that_answers_503_is_left_out() {
    let (good, bad) = (Upstream::ok(), answering(503));
    let upstream = "eject: { after: 3, for: 1h }";
    let gateway = gateway(&[bad.url(), good.url()], upstream, "").await;
    let client = Client::new(gateway.address);
    let mut failed = 0;
    for _ in 0..20 {
        failed += usize::from(client.get("/").await.status == 503);
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
                *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
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
    let status = Arc::new(AtomicU16::new(503));
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
    get_each(&client, 10, "/", &[], 200).await;
    assert_eq!(uneven.count(), 3 + 5);
    assert_eq!(metric(&gateway, "ejections_total", "").await, 2);
}

#[tokio::test]
async fn never_are_all_left_out() {
    for (at_most, out) in [("1%", 1), ("50%", 2), ("100%", 3)] {
        let servers = [503, 503, 503, 200].map(answering);
        let urls = servers.each_ref().map(Upstream::url);
        let upstream = format!("eject: {{ after: 1, for: 1h, at_most: {at_most} }}");
        let gateway = gateway(&urls, &upstream, "").await;
        let client = Client::new(gateway.address);
        for _ in 0..20 {
            client.get("/").await;
        }
        assert_eq!(metric(&gateway, "servers", OUT).await, out, "{at_most}");
        let failing = metric(&gateway, "servers", "state=\"failing\"").await;
        let healthy = metric(&gateway, "servers", IN).await;
        assert_eq!(healthy + failing, 4 - out, "{at_most}");
    }
}

/// Where all servers fail alike, nothing is won without one of them.
#[tokio::test]
async fn none_is_left_out_where_all_fail() {
    let servers = [503; 4].map(answering);
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "eject: { after: 3, for: 1h, at_most: 100% }", "").await;
    let client = Client::new(gateway.address);
    get_each(&client, 40, "/", &[], 503).await;
    assert_eq!(metric(&gateway, "servers", OUT).await, 0);
}

/// An error of the server, as opposed to that of a gateway, is often one of the request.
#[tokio::test]
async fn an_answer_of_500_counts_where_it_is_listed() {
    for (status, counts) in [("", 0), (", status: [5xx]", 1), (", status: [500, 503]", 1)] {
        let (good, bad) = (Upstream::ok(), answering(500));
        let upstream = format!("eject: {{ after: 3, for: 1h{status} }}");
        let gateway = gateway(&[bad.url(), good.url()], &upstream, "").await;
        let client = Client::new(gateway.address);
        for _ in 0..20 {
            client.get("/").await;
        }
        assert_eq!(
            metric(&gateway, "ejections_total", "").await,
            counts,
            "{status}"
        );
    }
}

/// A server that answers `/bad` with this status, `/slow` never, and all else with 200.
fn with_bad_paths(status: u16) -> Upstream {
    Upstream::start(move |request| async move {
        let mut answer = http::Response::new(body::full("answer"));
        match request.uri().path() {
            "/bad" => *answer.status_mut() = StatusCode::from_u16(status).unwrap(),
            "/slow" => std::future::pending().await,
            _ => {}
        }
        answer
    })
}

/// A client that asks for a path that fails everywhere has no server left out, however it times its requests.
#[tokio::test]
async fn requests_that_fail_everywhere_eject_no_server() {
    for status in [500, 503, 504] {
        let servers = [status; 4].map(with_bad_paths);
        let urls = servers.each_ref().map(Upstream::url);
        let gateway = gateway(&urls, "eject: { for: 1h, status: [5xx] }", "").await;
        let client = Client::new(gateway.address);
        for good in [0, 1, 2, 5] {
            for _ in 0..40 {
                get_each(&client, 7, "/bad", &[], status).await;
                get_each(&client, good, "/", &[], 200).await;
            }
        }
        assert_eq!(metric(&gateway, "ejections_total", "").await, 0, "{status}");
    }
}

/// The same in bursts, beside the requests of others.
#[tokio::test]
async fn bursts_of_requests_that_fail_everywhere_eject_no_server() {
    let servers = [503; 4].map(with_bad_paths);
    let urls = servers.each_ref().map(Upstream::url);
    let gateway = gateway(&urls, "eject: { for: 1h }", "timeouts: { upstream: 200ms }").await;
    let address = gateway.address;
    let mut others = JoinSet::new();
    for _ in 0..4 {
        others.spawn(async move {
            let client = Client::new(address);
            loop {
                client.get("/").await;
            }
        });
    }
    let clients: Vec<_> = (0..24).map(|_| Arc::new(Client::new(address))).collect();
    for path in ["/bad", "/slow"] {
        for _ in 0..20 {
            let mut burst = JoinSet::new();
            for client in clients.clone() {
                burst.spawn(async move { client.get(path).await.status });
            }
            for status in burst.join_all().await {
                assert!(status.is_server_error(), "{status}");
            }
        }
        assert_eq!(metric(&gateway, "ejections_total", "").await, 0, "{path}");
    }
}

#[tokio::test]
async fn none_is_left_out_of_one_or_where_nobody_wants_it() {
    let alone = answering(503);
    let first = gateway(&[alone.url()], "eject: { after: 1, for: 1h }", "").await;
    let pair = [answering(503), answering(503)];
    let urls = pair.each_ref().map(Upstream::url);
    let second = gateway(&urls, "eject: none", "").await;
    for gateway in [&first, &second] {
        let client = Client::new(gateway.address);
        get_each(&client, 20, "/", &[], 503).await;
        assert_eq!(metric(gateway, "ejections_total", "").await, 0);
    }
    assert_eq!(counts(&pair.each_ref()), [10, 10]);
}

/// What is known of servers outlives a reload that leaves their upstream as it is, and no other.
#[tokio::test]
async fn a_reload_forgets_no_ejection() {
    let (good, bad) = (Upstream::ok(), answering(503));
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
    get_each(&client, 10, "/", &[], 200).await;
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
