//! H1 to H8: what HTTP/2 lets a client do to a server costs that client its connection, and others nothing. What it costs
//! the gateway is measured in `http2_figures`.

use std::sync::atomic::Ordering;

use crate::bench::LONG;
use crate::frames::{ENHANCE_YOUR_CALM, HEADERS, frame, headers};
use crate::hostile::{BOMBS, Flood, MIB, Target, WHOLE, bomb, largest_head};

const IMPATIENT: &str = "idle: 2s, slow: { after: 2s }";

#[tokio::test]
async fn h1_requests_that_are_taken_back_at_once() {
    let target = Target::new(IMPATIENT).await;
    let before = target.gateway.process.rss_kb();
    let heard = target.rapid_resets().await;
    assert_eq!(heard.goaway, Some(ENHANCE_YOUR_CALM), "{heard:?}");
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 20 * MIB, "it grew by {grown} KiB");
    // Whatever reached the upstream was charged.
    assert!(target.charged().await >= target.upstream.count() - 1);
    target.serves().await;
}

#[tokio::test]
async fn h2_frames_on_streams_that_are_closed() {
    let target = Target::new(IMPATIENT).await;
    let heard = target.late_frames().await;
    assert!(heard.goaway.is_some(), "{heard:?}");
    target.serves().await;
}

#[tokio::test]
async fn h3_requests_that_we_are_made_to_take_back() {
    let target = Target::new(IMPATIENT).await;
    let heard = target.made_resets().await;
    assert!(heard.goaway.is_some(), "{heard:?}");
    let most = target.most.load(Ordering::Relaxed);
    assert!(most <= 100, "{most} requests at once");
    target.serves().await;
}

#[tokio::test]
async fn h4_a_head_that_never_ends() {
    let target = Target::new(IMPATIENT).await;
    let before = target.gateway.process.rss_kb();
    let heard = target.endless_head().await;
    assert_eq!(heard.answers, 0, "{heard:?}");
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 8 * MIB, "it grew by {grown} KiB");
    target.serves().await;
}

#[tokio::test]
async fn h5_a_body_of_nothing() {
    let target = Target::new(IMPATIENT).await;
    let heard = target.empty_body().await;
    assert_eq!(heard.goaway, Some(ENHANCE_YOUR_CALM), "{heard:?}");
    target.serves().await;
}

/// Each of them is given up in the end, and with them the connection.
#[tokio::test]
async fn h6_answers_that_nobody_takes() {
    let target = Target::new(IMPATIENT).await;
    let before = target.gateway.process.rss_kb();
    let client = target.stalled_answers(&largest_head()).await;
    target.upstream.wait_for(101, LONG).await;
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 24 * MIB, "it grew by {grown} KiB");
    let heard = client.heard(LONG).await;
    assert_eq!((heard.answers, heard.resets), (100, 100), "{heard:?}");
    target.serves().await;
}

/// More fields than a request may have, each a byte: refused before anything is made of them.
#[tokio::test]
async fn h6_heads_that_are_larger_than_they_look() {
    let target = Target::new(IMPATIENT).await;
    let before = (target.gateway.process.rss_kb(), target.upstream.count());
    for references in BOMBS {
        let client = target.stalled_answers(&bomb(references)).await;
        let heard = client.heard(LONG).await;
        match heard.goaway {
            Some(code) => assert_eq!(code, ENHANCE_YOUR_CALM, "{references}: {heard:?}"),
            None => assert_eq!(heard.answers, 100, "{references}: {heard:?}"),
        }
    }
    assert_eq!(target.upstream.count(), before.1);
    let grown = target.gateway.process.rss_kb().saturating_sub(before.0);
    assert!(grown < 24 * MIB, "it grew by {grown} KiB");
    target.serves().await;
}

#[tokio::test]
async fn h7_what_would_be_two_requests_in_http_1() {
    let target = Target::new(IMPATIENT).await;
    let before = target.upstream.count();
    for more in [
        ("transfer-encoding", "chunked"),
        ("connection", "close"),
        ("upgrade", "websocket"),
        ("X-Upper", "a"),
        ("x-a", "b\r\nx-c: d"),
        ("x-a\r\nx-b", "c"),
        ("x a", "b"),
        (":path", "/other"),
        (":authority", "other"),
        (":scheme", "http://x/?"),
        ("host", "other"),
        ("content-length", "5"),
    ] {
        let mut client = target.connect().await;
        let request = frame(HEADERS, WHOLE, 1, &headers("GET", "/", &[more]));
        client.send(&[request]).await.unwrap();
        let heard = client.close(LONG).await;
        let is_refused = heard.resets + heard.answers <= 1;
        assert!(is_refused, "{more:?}: {heard:?}");
    }
    for path in ["nothing", "/a\r\nb", "/a b"] {
        let mut client = target.connect().await;
        let request = frame(HEADERS, WHOLE, 1, &headers("GET", path, &[]));
        client.send(&[request]).await.unwrap();
        client.close(LONG).await;
    }
    assert_eq!(target.upstream.count(), before);
    target.serves().await;
}

#[tokio::test]
async fn h8_control_frames_without_end() {
    let target = Target::new(IMPATIENT).await;
    let before = target.gateway.process.rss_kb();
    for kind in Flood::ALL {
        let heard = target.flood(kind).await;
        assert_eq!(heard.goaway, Some(ENHANCE_YOUR_CALM), "{kind:?}: {heard:?}");
        target.serves().await;
    }
    let process = &target.gateway.process;
    process.wait_for_line("too many control frames", LONG).await;
    let grown = target.gateway.process.rss_kb().saturating_sub(before);
    assert!(grown < 20 * MIB, "it grew by {grown} KiB");
}
