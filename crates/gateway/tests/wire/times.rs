//! How long a connection may be silent.

use std::time::{Duration, Instant};

use tidegate_testkit::{Action, End, RawClient, RawUpstream, When};
use tokio::time::sleep;

use crate::lab::{ALL, LONG, Lab, OK, answer_to, lasted};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SHORT: Duration = Duration::from_millis(300);

/// A lab that gives a head, or a connection between requests, only a [`SHORT`] time.
async fn impatient(what: &str) -> Lab {
    Lab::new(&format!("timeouts: {{ {what}: 300ms }}\n{ALL}")).await
}

/// Waits until the gateway closes, which it must not do before the [`SHORT`] time has passed; gives
/// what it said before.
async fn closed(client: &mut RawClient, from: Instant) -> Vec<u8> {
    let (said, end) = client.read_to_close(LONG).await;
    assert_eq!(end, End::Closed, "{said:?}");
    lasted(from, SHORT);
    said
}

#[tokio::test]
async fn a_head_must_come_in_time() {
    let lab = impatient("header").await;
    for start in [
        "",
        "G",
        "PRI * HT",
        "GET / HTTP/1.1\r\n",
        &GET[..GET.len() - 1],
    ] {
        let from = Instant::now();
        let mut client = lab.connect().await;
        client.send(start).await.unwrap();
        assert_eq!(closed(&mut client, from).await, b"", "{start:?}");
    }
}

/// Neither for the first nor for a later one.
#[tokio::test]
async fn bytes_that_go_on_coming_buy_a_head_no_time() {
    let lab = impatient("header").await;
    for before in [0, 1] {
        let mut client = lab.connect().await;
        for _ in 0..before {
            assert_eq!(answer_to(&mut client, GET).await.status(), 200);
        }
        let from = Instant::now();
        client.send("GET / HTTP/1.1\r\n").await.unwrap();
        while client.send("X: y\r\n").await.is_ok() {
            assert!(from.elapsed() < LONG, "still open");
            sleep(Duration::from_millis(10)).await;
        }
        lasted(from, SHORT);
    }
}

/// The next head has its time from its first byte, not from the end of the answer before.
#[tokio::test]
async fn between_requests_a_connection_may_be_silent_for_longer() {
    let lab = impatient("header").await;
    let mut client = lab.connect().await;
    for pause in [Duration::ZERO, 3 * SHORT, Duration::ZERO] {
        sleep(pause).await;
        assert_eq!(answer_to(&mut client, GET).await.status(), 200);
    }
}

#[tokio::test]
async fn but_not_for_ever() {
    let lab = impatient("idle").await;
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, GET).await.status(), 200);
    let from = Instant::now();
    assert_eq!(closed(&mut client, from).await, b"");
}

#[tokio::test]
async fn an_http_2_connection_without_requests_ends() {
    let lab = impatient("idle").await;
    let from = Instant::now();
    let mut client = lab.connect().await;
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    client
        .send([&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], settings].concat())
        .await
        .unwrap();
    let said = closed(&mut client, from).await;
    assert_eq!(
        said.get(3),
        Some(&4),
        "it has sent its own settings: {said:?}"
    );
}

/// A client that waits for its answer is not silent, however long the upstream takes.
#[tokio::test]
async fn a_client_that_waits_is_not_cut_off() {
    let upstream = RawUpstream::start(When::Request, |_| {
        vec![Action::Pause(3 * SHORT), Action::send(OK)]
    });
    let short = format!("timeouts: {{ header: 300ms, idle: 300ms }}\n{ALL}");
    let lab = Lab::around(upstream, &short).await;
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, GET).await.status(), 200);
}
