//! Heads of HTTP/2 that the protocol refuses before they become requests: counted, and charged to the peer's address.

use tidegate_testkit::{Client, Upstream};

use crate::bench::{LONG, gateway, sample, sample_becomes};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, HEADERS, PING, frame, headers,
};
use crate::support::TestGateway;
use crate::support::asking::get_each;

const WHOLE: u8 = END_HEADERS | END_STREAM;
const REFUSED: &str = "tidegate_unparsed_requests_total{reason=\"http2\"}";
const FLOODS: &str = "tidegate_unparsed_requests_total{reason=\"control_frames\"}";
const REJECTED: &str =
    "tidegate_requests_total{route=\"none\",outcome=\"rejected\",status=\"4xx\"}";
const FORWARDED: &str =
    "tidegate_requests_total{route=\"/**\",outcome=\"forwarded\",status=\"2xx\"}";
const LIMITED: &str = "tidegate_requests_total{route=\"none\",outcome=\"limited\",status=\"4xx\"}";

/// Five requests of an address, whatever they ask for.
async fn limited(upstream: &Upstream) -> TestGateway {
    let yaml = "
limits: { guard: { fixed_window: { limit: 5, window: 31d }, per: [ip] } }
always: [guard]
routes: [{ path: /**, upstream: UPSTREAM }]
";
    gateway(upstream.url(), yaml).await
}

/// A head that HTTP/2 does not allow, as it speaks of the connection.
fn malformed(stream: u32) -> Vec<u8> {
    frame(
        HEADERS,
        WHOLE,
        stream,
        &headers("GET", "/", &[("connection", "close")]),
    )
}

/// A head that is larger than we say that it may be.
fn oversize(stream: u32) -> Vec<u8> {
    let value = "x".repeat(126);
    frame(
        HEADERS,
        WHOLE,
        stream,
        &headers("GET", "/", &vec![("x", &*value); 120]),
    )
}

#[tokio::test]
async fn heads_that_become_no_request_are_charged() {
    let upstream = Upstream::ok();
    let gateway = limited(&upstream).await;
    let mut client = Frames::connect(gateway.address, &[]).await;
    client
        .send(&[malformed(1), oversize(3), malformed(5)])
        .await
        .unwrap();
    sample_becomes(gateway.admin, REFUSED, 3).await;
    assert_eq!(sample(gateway.admin, REJECTED).await, 3);
    // Requests on the same connection go on, until the limit is used up.
    client
        .send(&[frame(HEADERS, WHOLE, 7, &headers("GET", "/", &[]))])
        .await
        .unwrap();
    sample_becomes(gateway.admin, FORWARDED, 1).await;
    client.send(&[malformed(9), malformed(11)]).await.unwrap();
    let heard = client.heard(LONG).await;
    // The request, the head that was too large; and nothing after the limit.
    assert_eq!(heard.answers, 2, "{heard:?}");
    assert_eq!(sample(gateway.admin, REJECTED).await, 4);
    assert_eq!(sample(gateway.admin, LIMITED).await, 1);
}

#[tokio::test]
async fn what_ends_the_connection_is_charged_once() {
    let upstream = Upstream::ok();
    let gateway = limited(&upstream).await;
    for n in 1..=3 {
        let mut client = Frames::connect(gateway.address, &[]).await;
        // No stream has the number 0.
        _ = client.send(&[frame(DATA, 0, 0, b"garbage")]).await;
        let heard = client.heard(LONG).await;
        assert!(heard.goaway.is_some(), "{heard:?}");
        sample_becomes(gateway.admin, REFUSED, n).await;
    }
    // Two of the five are left.
    let client = Client::h2(gateway.address);
    for status in [200, 200, 429] {
        assert_eq!(client.get("/").await.status, status);
    }
}

/// Each connection that is ended for its control frames counts as one request, in the log and under `always`.
#[tokio::test]
async fn floods_of_control_frames_are_charged() {
    let upstream = Upstream::ok();
    let gateway = limited(&upstream).await;
    for n in 1..=5 {
        let mut client = Frames::connect(gateway.address, &[]).await;
        _ = client.send(&vec![frame(PING, 0, 0, &[0; 8]); 5_000]).await;
        let heard = client.heard(LONG).await;
        assert_eq!(heard.goaway, Some(ENHANCE_YOUR_CALM), "{heard:?}");
        sample_becomes(gateway.admin, FLOODS, n).await;
    }
    assert_eq!(sample(gateway.admin, REJECTED).await, 5);
    assert_eq!(Client::h2(gateway.address).get("/").await.status, 429);
}

#[tokio::test]
async fn good_clients_are_charged_for_their_requests_alone() {
    let upstream = Upstream::ok();
    let gateway = limited(&upstream).await;
    let client = Client::h2(gateway.address);
    get_each(&client, 5, "/", &[], 200).await;
    assert_eq!(client.get("/").await.status, 429);
    assert_eq!(sample(gateway.admin, REFUSED).await, 0);
}
