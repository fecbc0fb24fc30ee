//! Clients that stop in the middle: of the body that they send, or of the answer that they read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use tidegate_testkit::{Client, End, RawClient, Upstream, body};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::lab::{ALL, LONG, Lab, gateway, lasted};
use crate::support::TestGateway;
use crate::support::asking::send_get;

const IDLE: Duration = Duration::from_secs(1);

fn impatient() -> String {
    format!("timeouts: {{ idle: 1s }}\n{ALL}")
}

/// Parts that come in time are waited for, however many; the one that does not come is not.
async fn stops_after_six_parts(lab: &Lab, framing: &str, part: &str) {
    let mut client = lab.connect().await;
    let begun = Instant::now();
    client
        .send(format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"))
        .await
        .unwrap();
    for _ in 0..6 {
        sleep(IDLE / 5).await;
        client.send(part).await.unwrap();
    }
    assert!(begun.elapsed() > IDLE);
    let from = Instant::now();
    let answer = client.response(LONG).await.unwrap();
    lasted(from, IDLE);
    assert_eq!(answer.status(), 408);
    assert!(answer.text().contains("body_timeout"), "{answer:?}");
    client.finish().await;
    assert_eq!(client.read_to_close(LONG).await, (vec![], End::Closed));
}

#[tokio::test]
async fn a_body_that_stops_coming_is_a_408() {
    let lab = Lab::new(&impatient()).await;
    tokio::join!(
        stops_after_six_parts(&lab, "Content-Length: 100", "part"),
        stops_after_six_parts(&lab, "Transfer-Encoding: chunked", "4\r\npart\r\n"),
        stops_after_six_parts(&lab, "Transfer-Encoding: chunked", "1;extension\r\n.\r\n"),
    );
    assert!(lab.upstream.saw("part"), "what came was sent on");
    assert_eq!(lab.upstream.requests().len(), 0, "none arrived whole");
}

#[tokio::test]
async fn a_body_that_stops_coming_over_http_2_is_a_408() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), &impatient()).await;
    let client = Client::h2(gateway.address);
    let (mut sender, body) = body::channel();
    sender.send_data("part".into()).await.unwrap();
    let from = Instant::now();
    let answer = client.request(Request::post("/").body(body).unwrap()).await;
    lasted(from, IDLE);
    assert_eq!(answer.status, 408);
    drop(sender);
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.connections(), 1, "only that request was given up");
}

/// A gateway whose upstream answers `/endless` with a body without end, and what tells that the
/// gateway has given that up.
async fn endless() -> (Upstream, TestGateway, Arc<Notify>) {
    let given_up = Arc::new(Notify::new());
    let notify = given_up.clone();
    let upstream = Upstream::start(move |request| {
        let (mut sender, body) = body::channel();
        let endless = request.uri().path() == "/endless";
        let notify = notify.clone();
        tokio::spawn(async move {
            while endless && sender.send_data("x".repeat(16 * 1024).into()).await.is_ok() {}
            if endless {
                notify.notify_one();
            }
        });
        async { Response::new(body) }
    });
    let yaml = format!("timeouts: {{ slow: {{ after: 1s }} }}\n{ALL}");
    let gateway = gateway(upstream.url(), &yaml).await;
    (upstream, gateway, given_up)
}

async fn given_up_by_now(given_up: &Notify) {
    let given_up = timeout(LONG, given_up.notified()).await;
    assert!(given_up.is_ok(), "the upstream still sends");
}

fn for_ever() -> Request<body::BoxBody> {
    Request::get("/endless").body(body::empty()).unwrap()
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off() {
    let (_upstream, gateway, given_up) = endless().await;
    let from = Instant::now();
    let mut client = RawClient::connect(gateway.address).await;
    send_get(&mut client, "/endless").await;
    given_up_by_now(&given_up).await;
    lasted(from, IDLE);
    // What is in the buffers comes, and nothing that looks like an end.
    let (said, end) = client.read_to_close(LONG).await;
    assert_ne!(end, End::Deadline);
    assert!(said.starts_with(b"HTTP/1.1 200") && !said.ends_with(b"0\r\n\r\n"));
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_one_answer_over_http_2_loses_only_that() {
    let (_upstream, gateway, given_up) = endless().await;
    let client = Client::h2(gateway.address);
    let from = Instant::now();
    let answer = client.open(for_ever()).await;
    assert_eq!(client.get("/").await.status, 200);
    given_up_by_now(&given_up).await;
    lasted(from, IDLE);
    let read = timeout(LONG, answer.into_body().collect())
        .await
        .expect("it ends");
    assert!(read.is_err(), "but not as if it were complete");
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.connections(), 1);
}

/// Until it leaves; then the upstream is told at once.
#[tokio::test]
async fn a_client_that_reads_slowly_is_served() {
    for client in [Client::new, Client::h2] {
        let (_upstream, gateway, given_up) = endless().await;
        let client = client(gateway.address);
        let mut answer = client.open(for_ever()).await;
        let from = Instant::now();
        while from.elapsed() < 2 * IDLE {
            for _ in 0..16 {
                answer.body_mut().frame().await.unwrap().unwrap();
            }
            sleep(IDLE / 20).await;
        }
        drop(answer);
        given_up_by_now(&given_up).await;
    }
}
