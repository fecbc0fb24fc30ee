//! SIGTERM, SIGINT and SIGQUIT: what is in flight is answered, nothing new begins, and the exit status is 0.

use std::io::ErrorKind;

use http::Request;
use http_body_util::BodyExt as _;
use tidegate_testkit::{Client, RawClient, Upstream, body};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::kit::{LONG, held, ready, send_get, until};
use crate::support::GatewayProcess;

/// Asks the gateway to stop, and waits until it says so and takes no more connections.
async fn stop(gateway: &mut GatewayProcess) {
    ready(gateway.admin, 200).await;
    gateway.process.signal("TERM");
    assert_eq!(ready(gateway.admin, 503).await, "stopping\n");
    // A connection may be taken, or closed while it is being taken.
    until("it takes no more connections", async || {
        let connected = TcpStream::connect(gateway.address).await;
        connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_are_answered() {
    let (upstream, release) = held();
    let mut gateway = GatewayProcess::before(&upstream).await;
    let mut asking = JoinSet::new();
    // A quarter of them as streams of one HTTP/2 connection.
    let http2 = std::sync::Arc::new(Client::h2(gateway.address));
    for i in 0..32 {
        let client = match i % 4 {
            0 => http2.clone(),
            _ => Client::new(gateway.address).into(),
        };
        asking.spawn(async move { client.get("/").await });
    }
    upstream.wait_for(32, LONG).await;
    stop(&mut gateway).await;
    assert!(
        asking.try_join_next().is_none(),
        "answered before the upstream did"
    );
    release.send(true).unwrap();
    for answer in asking.join_all().await {
        assert_eq!((answer.status.as_u16(), answer.text()), (200, "late"));
    }
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    assert_eq!(upstream.count(), 32);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_interrupt_ends_the_stop_at_once() {
    for first in ["INT", "TERM"] {
        let (upstream, _release) = held();
        let mut gateway = GatewayProcess::before(&upstream).await;
        let client = Client::new(gateway.address);
        let request = Request::get("/").body(body::empty()).unwrap();
        let asking = tokio::spawn(async move { client.try_request(request).await });
        upstream.wait_for(1, LONG).await;
        ready(gateway.admin, 200).await;
        gateway.process.signal(first);
        assert_eq!(ready(gateway.admin, 503).await, "stopping\n");
        gateway.process.signal("INT");
        let reason = "error: stopped at once by a second Ctrl-C";
        gateway.process.wait_for_line(reason, LONG).await;
        assert_eq!(gateway.process.wait(LONG).await.code(), Some(1));
        assert!(asking.await.unwrap().is_err());
    }
}

/// Clients that send one request after another until they cannot any more. A request may come too late to be taken. If the upstream
/// has seen a request, its client gets an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_whatever_was_forwarded_is_answered() {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::before(&upstream).await;
    let mut clients = JoinSet::new();
    for i in 0..32 {
        let client = match i % 4 {
            0 => Client::h2(gateway.address),
            _ => Client::new(gateway.address),
        };
        clients.spawn(async move {
            let mut answered = 0;
            let request = || Request::get("/").body(body::empty()).unwrap();
            while let Ok(answer) = client.try_request(request()).await {
                assert_eq!(answer.text(), r#"{"ok":true}"#);
                answered += 1;
            }
            answered
        });
    }
    upstream.wait_for(500, LONG).await;
    gateway.process.signal("TERM");
    let answered: usize = clients.join_all().await.iter().sum();
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
    assert_eq!(answered, upstream.count());
}

#[tokio::test]
async fn bodies_in_flight_go_on_both_ways() {
    let upstream = Upstream::echo();
    let mut gateway = GatewayProcess::before(&upstream).await;
    let client = Client::new(gateway.address);
    let (mut sender, request) = body::channel();
    let answering = client.open(Request::post("/").body(request).unwrap());
    sender.send_data("before".into()).await.unwrap();
    let mut answer = answering.await.into_body();
    let mut next = async || answer.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(next().await, "before");
    stop(&mut gateway).await;
    for part in ["during", "still"] {
        sender.send_data(part.into()).await.unwrap();
        assert_eq!(next().await, part);
    }
    drop(sender);
    assert!(answer.frame().await.is_none(), "the body ends as it should");
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
}

#[tokio::test]
async fn connections_without_a_request_do_not_hold_it_up() {
    for signal in ["TERM", "INT", "QUIT"] {
        ends_at(signal).await;
    }
}

async fn ends_at(signal: &str) {
    let upstream = Upstream::ok();
    let mut gateway = GatewayProcess::before(&upstream).await;
    let used = Client::new(gateway.address);
    let used_http2 = Client::h2(gateway.address);
    for client in [&used, &used_http2] {
        assert_eq!(client.get("/").await.status, 200);
    }
    // A scraper's connection stays open as well.
    let scraper = Client::new(gateway.admin);
    assert_eq!(scraper.get("/metrics").await.status, 200);
    gateway.process.signal(signal);
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0), "{signal}");
    let output = gateway.process.output().join("\n");
    assert!(
        !output.contains("deadline"),
        "it gave up waiting:\n{output}"
    );
}

#[tokio::test]
async fn the_last_answer_of_a_connection_says_so() {
    let (upstream, release) = held();
    let mut gateway = GatewayProcess::before(&upstream).await;
    let mut client = RawClient::connect(gateway.address).await;
    send_get(&mut client, "/").await;
    upstream.wait_for(1, LONG).await;
    stop(&mut gateway).await;
    release.send(true).unwrap();
    let answer = client.response(LONG).await.unwrap();
    assert_eq!(
        (answer.status(), answer.header("connection")),
        (200, Some("close"))
    );
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
}
