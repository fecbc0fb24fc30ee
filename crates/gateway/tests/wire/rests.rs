//! Connections that have nothing to do: little is kept for them, and nobody notices.

use std::time::Duration;

use tidegate_testkit::{Action, Client, End, RawClient, RawUpstream, When};

use crate::lab::{ALL, LONG, Lab, OK, ONE_A_DAY, answer_to};
use crate::support::pass;

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// After which a connection rests, and a little.
const REST: Duration = Duration::from_millis(2_100);

/// Waits until so many connections rest.
async fn resting(lab: &Lab, number: usize) {
    let shown = format!("tidegate_connections_resting {number}\n");
    let admin = Client::fresh(lab.gateway.admin);
    let all_rest = async { while !admin.get("/metrics").await.text().contains(&shown) {} };
    let waited = tokio::time::timeout(LONG, all_rest).await;
    waited.unwrap_or_else(|_| panic!("no {shown}"));
}

#[tokio::test]
async fn a_connection_that_rests_serves_the_next_request() {
    let lab = Lab::new(ALL).await;
    let mut client = lab.connect().await;
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    for requests in [&[GET, chunked][..], &[GET, post], &[chunked, GET]] {
        for request in requests {
            assert_eq!(answer_to(&mut client, request).await.status(), 200);
        }
        resting(&lab, 0).await;
        pass(REST).await;
        resting(&lab, 1).await;
    }
    client.finish().await;
    resting(&lab, 0).await;
    let (said, end) = client.read_to_close(LONG).await;
    assert_eq!((said, end), (Vec::new(), End::Closed));
    assert_eq!(lab.upstream.requests().len(), 6);
}

/// It has its time from when it was found.
#[tokio::test]
async fn half_a_head_behind_a_request_is_kept_and_must_be_completed_in_time() {
    let half = GET.len() / 2;
    for completed in [true, false] {
        let lab = Lab::new(ALL).await;
        let mut client = lab.connect().await;
        assert_eq!(
            answer_to(&mut client, format!("{GET}{}", &GET[..half]))
                .await
                .status(),
            200
        );
        pass(REST).await;
        // The gateway comes to look before it has been asked this.
        resting(&lab, 0).await;
        if completed {
            assert_eq!(answer_to(&mut client, &GET[half..]).await.status(), 200);
            assert_eq!(lab.upstream.requests().len(), 2);
        } else {
            pass(Duration::from_secs(11)).await;
            let (said, end) = client.read_to_close(LONG).await;
            assert_eq!((said, end), (Vec::new(), End::Closed));
        }
    }
}

#[tokio::test]
async fn a_connection_that_rests_ends_when_it_was_idle_for_too_long() {
    let lab = Lab::new(&format!("timeouts: {{ idle: 60s }}\n{ALL}")).await;
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, GET).await.status(), 200);
    pass(REST).await;
    resting(&lab, 1).await;
    pass(Duration::from_secs(30)).await;
    resting(&lab, 1).await;
    pass(Duration::from_secs(30)).await;
    let (said, end) = client.read_to_close(LONG).await;
    assert_eq!((said, end), (Vec::new(), End::Closed));
}

/// What is left of a body is no request, however long it took.
#[tokio::test]
async fn the_rest_of_a_refused_body_is_never_a_request() {
    let lab = Lab::new(ONE_A_DAY).await;
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, GET).await.status(), 200);
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n0123456789";
    assert_eq!(answer_to(&mut client, post).await.status(), 429);
    silent_then_smuggled(&lab, client).await;
}

#[tokio::test]
async fn nothing_is_a_request_behind_one_that_was_malformed() {
    for malformed in [
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        let mut client = lab.connect().await;
        answer_to(&mut client, malformed).await;
        silent_then_smuggled(&lab, client).await;
    }
}

/// The upstream has answered, and still gets what the client goes on sending, or nothing.
#[tokio::test]
async fn the_rest_of_a_body_that_was_answered_early_is_never_a_request() {
    let upstream = RawUpstream::start(When::Head, |_| vec![Action::send(OK)]);
    let lab = Lab::around(upstream, ALL).await;
    let mut client = lab.connect().await;
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n0123456789";
    assert_eq!(answer_to(&mut client, post).await.status(), 200);
    silent_then_smuggled(&lab, client).await;
}

/// A client that says nothing until its connection would rest, and then sends what would be a request of its own.
async fn silent_then_smuggled(lab: &Lab, mut client: RawClient) {
    pass(REST).await;
    // Whoever rests by now would take the next byte for the first of a head.
    for _ in 0..10 {
        let page = Client::fresh(lab.gateway.admin).get("/metrics").await;
        let text = page.text();
        assert!(text.contains("tidegate_connections_resting 0\n"), "{text}");
    }
    let before = lab.upstream.requests().len();
    let smuggled = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";
    // It may have closed already.
    let _ = client.send(smuggled).await;
    client.finish().await;
    let (said, _) = client.read_to_close(LONG).await;
    assert!(said.is_empty(), "{}", String::from_utf8_lossy(&said));
    assert_eq!(lab.upstream.requests().len(), before);
}
