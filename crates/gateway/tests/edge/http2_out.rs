//! Upstreams of HTTP/2: many requests on one connection, none of which is in another's way.

use http::{HeaderMap, Request, Response, Version};
use http_body_util::BodyExt as _;
use tidegate_testkit::{Client, Speaks, Upstream, body};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bench::{ALL, LONG, gateway};
use crate::support::held::held_one_by_one;

async fn ask(upstream: &Upstream, open: &Semaphore, number: usize) -> usize {
    let gateway = gateway(upstream.url(), ALL).await;
    // From then on the upstream's own bound is known, which is higher.
    open.add_permits(1);
    assert_eq!(
        Client::fresh(gateway.address).get("/first").await.status,
        200
    );
    let mut asking = JoinSet::new();
    for n in 0..number {
        let client = Client::fresh(gateway.address);
        asking.spawn(async move {
            let path = format!("/{n}");
            let answer = client.get(&path).await;
            assert_eq!((answer.status.as_u16(), answer.text()), (200, &*path));
        });
    }
    upstream.wait_for(number + 1, LONG).await;
    open.add_permits(number);
    asking.join_all().await.len()
}

#[tokio::test]
async fn requests_share_a_connection_up_to_its_bound() {
    for (number, connections) in [(100, 1), (150, 2)] {
        let (upstream, open) = held_one_by_one(Speaks::Http2);
        assert_eq!(ask(&upstream, &open, number).await, number);
        assert_eq!(upstream.connections(), connections);
    }
}

#[tokio::test]
async fn a_request_of_http_1_becomes_one_of_http_2() {
    let upstream = Upstream::echo_speaking(Speaks::Http2);
    let gateway = gateway(upstream.url(), ALL).await;
    for client in [Client::new(gateway.address), Client::h2(gateway.address)] {
        let client = client.knows("x-sum");
        let (mut sender, streamed) = body::channel();
        let request = Request::post("/a?b=c")
            .header("host", "api.example.com:81")
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .header("cookie", "a=1")
            .header("cookie", "b=2");
        let sending = async {
            sender.send_data("part".into()).await.unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("x-sum", "7".parse().unwrap());
            sender.send_trailers(trailers).await.unwrap();
            drop(sender);
        };
        let (answer, ()) = tokio::join!(client.request(request.body(streamed).unwrap()), sending);
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "part"));
        assert_eq!(answer.trailers.unwrap()["x-sum"], "7");
    }
    for arrived in upstream.requests() {
        assert_eq!(
            (arrived.version, &*arrived.target),
            (Version::HTTP_2, "/a?b=c")
        );
        for (name, value) in [
            ("host", Some("api.example.com:81")),
            ("x-forwarded-host", Some("api.example.com:81")),
            ("x-forwarded-for", Some("127.0.0.1")),
            ("te", Some("trailers")),
            ("cookie", Some("a=1; b=2")),
            ("transfer-encoding", None),
            ("connection", None),
        ] {
            assert_eq!(arrived.header(name), value, "{name}");
        }
    }
    assert_eq!((upstream.count(), upstream.connections()), (2, 1));
}

#[tokio::test]
async fn parts_go_both_ways_while_the_next_was_not_sent() {
    let upstream = Upstream::echo_speaking(Speaks::Http2);
    let gateway = gateway(upstream.url(), ALL).await;
    for client in [Client::new(gateway.address), Client::h2(gateway.address)] {
        let (mut sender, body) = body::channel();
        let mut answer = client.open(Request::post("/").body(body).unwrap()).await;
        for part in ["one", "two", "three"] {
            sender.send_data(part.into()).await.unwrap();
            let frame = timeout(LONG, answer.body_mut().frame()).await.unwrap();
            assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), part);
        }
        drop(sender);
        let rest = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(rest, "");
    }
}

/// Clients that do not read fill their own streams, and leave room on the connection for all others.
#[tokio::test]
async fn slow_clients_keep_nobody_waiting() {
    const LARGE: usize = 4 << 20;
    let upstream = Upstream::speaking(Speaks::Http2, |request: Request<_>| async move {
        Response::new(match request.uri().path() {
            "/large" => body::full(vec![b'x'; LARGE]),
            _ => body::full("small"),
        })
    });
    let gateway = gateway(upstream.url(), ALL).await;
    let mut unread = Vec::new();
    for _ in 0..60 {
        let client = Client::fresh(gateway.address);
        let request = Request::get("/large").body(body::empty()).unwrap();
        unread.push(client.open(request).await);
    }
    let client = Client::new(gateway.address);
    for _ in 0..20 {
        assert_eq!(client.get("/small").await.text(), "small");
    }
    assert_eq!(upstream.connections(), 1);
    let whole = unread.remove(0).into_body().collect().await.unwrap();
    assert_eq!(whole.to_bytes().len(), LARGE);
}

/// A client that leaves costs its own request, and its place is free again.
#[tokio::test]
async fn a_client_that_leaves_takes_nobody_along() {
    let (upstream, open) = held_one_by_one(Speaks::Http2);
    let gateway = gateway(upstream.url(), ALL).await;
    for _ in 0..3 {
        let mut leaving = JoinSet::new();
        let before = upstream.count();
        for _ in 0..90 {
            let client = Client::fresh(gateway.address);
            leaving.spawn(async move { client.get("/left").await.status });
        }
        upstream.wait_for(before + 90, LONG).await;
        leaving.shutdown().await;
    }
    let staying = Client::new(gateway.address);
    let stays = tokio::spawn(async move { staying.get("/stayed").await.text().to_owned() });
    upstream.wait_for(271, LONG).await;
    open.add_permits(271);
    assert_eq!(stays.await.unwrap(), "/stayed");
    // Places come back when the gateway hears of it, which may be after the next comes.
    assert!(upstream.connections() <= 3, "{}", upstream.connections());
}
