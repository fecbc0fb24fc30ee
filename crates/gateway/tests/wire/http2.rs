//! HTTP/2 without TLS, known beforehand: many requests at once, and what is refused of one without
//! harm to the others.

use bytes::Bytes;
use std::sync::Arc;

use http::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate_testkit::{Client, Upstream, body};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::lab::{ALL, LONG, gateway};

/// Three requests a day, for everybody.
const THREE: &str = "
limits: { three: { fixed_window: { limit: 3, window: 1d } } }
routes:
  - { path: /limited, upstream: UPSTREAM, limits: [three] }
  - { path: /**, upstream: UPSTREAM }
";

#[tokio::test]
async fn many_requests_share_a_connection_and_a_refused_one_disturbs_none() {
    // Nothing is answered before all that will be are there.
    let open = Arc::new(Semaphore::new(0));
    let door = open.clone();
    let upstream = Upstream::start(move |request: Request<_>| {
        let door = door.clone();
        async move {
            door.acquire().await.unwrap().forget();
            http::Response::new(body::full(request.uri().path().to_owned()))
        }
    });
    let gateway = gateway(upstream.url(), THREE).await;
    let client = Arc::new(Client::h2(gateway.address));
    let mut requests = JoinSet::new();
    for n in 0..80 {
        let path = if n % 8 == 0 {
            "/limited".to_owned()
        } else {
            format!("/{n}")
        };
        let client = client.clone();
        requests.spawn(async move { (client.get(&path).await, path) });
    }
    upstream.wait_for(73, LONG).await;
    open.add_permits(73);
    let mut refused = 0;
    while let Some(answered) = requests.join_next().await {
        let (answer, path) = answered.unwrap();
        if answer.status == 429 {
            assert_eq!(path, "/limited");
            refused += 1;
        } else {
            assert_eq!((answer.status.as_u16(), answer.text()), (200, &*path));
        }
    }
    assert_eq!(
        (refused, upstream.count(), client.connections()),
        (7, 73, 1)
    );
}

/// More than may be open at once wait for their turn.
#[tokio::test]
async fn more_requests_than_fit_wait_for_those_before_them() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), ALL).await;
    let client = Arc::new(Client::h2(gateway.address));
    let mut requests = JoinSet::new();
    for _ in 0..300 {
        let client = client.clone();
        requests.spawn(async move { client.get("/").await.status });
    }
    let statuses = requests.join_all().await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!((upstream.count(), client.connections()), (300, 1));
    assert!(
        upstream.connections() <= 100,
        "{} requests were open at once",
        upstream.connections()
    );
}

#[tokio::test]
async fn a_request_of_http_2_becomes_one_of_http_1() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), ALL).await;
    let client = Client::h2(gateway.address);
    let (mut sender, streamed) = body::channel();
    let request = Request::post("/a/./b?c=d")
        .header("host", "api.example.com")
        .header("cookie", "a=1")
        .header("cookie", "b=2");
    let sending = async {
        sender.send_data("part".into()).await.unwrap();
        drop(sender);
    };
    let (answer, ()) = tokio::join!(client.request(request.body(streamed).unwrap()), sending);
    assert_eq!(
        (answer.version, answer.text()),
        (http::Version::HTTP_2, "part")
    );
    let arrived = upstream.requests().remove(0);
    assert_eq!(
        (arrived.version, &*arrived.target),
        (http::Version::HTTP_11, "/a/b?c=d")
    );
    for (name, value) in [
        ("host", "api.example.com"),
        ("x-forwarded-host", "api.example.com"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("cookie", "a=1; b=2"),
        ("transfer-encoding", "chunked"),
    ] {
        assert_eq!(arrived.header(name), Some(value), "{name}");
    }
}

/// In HTTP/1 a whole URL replaces the Host header; here the two have to be one.
#[tokio::test]
async fn a_host_beside_the_authority_must_agree_with_it() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), ALL).await;
    let stream = TokioIo::new(TcpStream::connect(gateway.address).await.unwrap());
    let (mut client, connection) = http2::handshake(TokioExecutor::new(), stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    for (authority, host, status) in [
        ("a", Some("a"), 200),
        ("a", None, 200),
        ("a", Some("b"), 400),
        ("a:b", None, 400),
        ("a@b", None, 400),
    ] {
        let mut request = Request::get(format!("http://{authority}/"));
        if let Some(host) = host {
            request = request.header("host", host);
        }
        let request = request.body(body::empty());
        let Ok(request) = request else {
            assert_eq!(status, 400, "{authority} cannot even be sent");
            continue;
        };
        let answer = client.send_request(request).await.unwrap();
        assert_eq!(answer.status(), status, "{authority}, {host:?}");
    }
    let hosts: Vec<_> = upstream
        .requests()
        .iter()
        .map(|r| r.header("host") == Some("a"))
        .collect();
    assert_eq!(hosts, [true, true]);
}

/// A body that is refused half-way is stopped, and the connection stays good.
#[tokio::test]
async fn a_body_too_large_costs_only_its_own_request() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), &format!("max_body: 10\n{ALL}")).await;
    let client = Client::h2(gateway.address);
    for _ in 0..3 {
        let (mut sender, body) = body::channel();
        let sending = async move {
            // Until it is told to stop. Not in tiny frames: on a busy machine thousands of them wait, and end the connection.
            let part = Bytes::from_static(&[b'a'; 4096]);
            while sender.send_data(part.clone()).await.is_ok() {}
        };
        let request = Request::post("/").body(body).unwrap();
        let (answer, ()) = tokio::join!(client.request(request), sending);
        assert_eq!(answer.status, 413);
        assert_eq!(client.post("/", "ten bytes!").await.status, 200);
    }
    assert_eq!(client.connections(), 1);
}
