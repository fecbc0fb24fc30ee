//! Upstreams that answer before they have the whole body, and gateways in between. The gateways must not lose the answer, the rest
//! of the body, or their place.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use tidegate_testkit::{Action, Client, End, Message, RawUpstream, When, body};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::lab::{ALL, LONG, Lab, answer_to};

const REFUSED: &str = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nfull";

fn post(length: usize) -> String {
    format!("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
}

/// The upstream takes no more of it, but says why.
#[tokio::test]
async fn an_answer_before_the_end_of_the_body_is_the_answer() {
    for end in [Action::Close, Action::Reset, Action::Hang] {
        let script = [Action::send(REFUSED), end];
        let upstream = RawUpstream::start(When::Head, move |_| script.to_vec());
        let lab = Lab::around(upstream, ALL).await;
        let mut client = lab.connect().await;
        let answer = answer_to(&mut client, post(1000)).await;
        assert_eq!((answer.status(), answer.text()), (413, "full"));
    }
}

/// The same while the body is on its way: more of it than all buffers between here and there hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_in_the_middle_of_a_large_body_is_the_answer() {
    for round in 0..20 {
        let script = [Action::send(REFUSED), Action::Close];
        let upstream = RawUpstream::start(When::Head, move |_| script.to_vec());
        let lab = Lab::around(upstream, ALL).await;
        let mut client = lab.connect().await;
        client.send(post(50_000_000)).await.unwrap();
        // It is cut off when it has had time to hear the answer, so not all of this may be taken.
        _ = client.send(vec![b'x'; 10_000_000]).await;
        let answer = client.response(LONG).await;
        let answer = answer.unwrap_or_else(|e| panic!("round {round}: {e}"));
        assert_eq!((answer.status(), answer.text()), (413, "full"));
        client.finish().await;
        assert_ne!(client.read_to_close(LONG).await.1, End::Deadline);
    }
}

/// An upstream that goes on reading gets it all, and the connections on both sides are in step.
#[tokio::test]
async fn the_rest_of_the_body_is_still_forwarded() {
    let upstream = RawUpstream::start(When::Head, |_| vec![Action::send(REFUSED)]);
    let lab = Lab::around(upstream, ALL).await;
    let mut client = lab.connect().await;
    for _ in 0..3 {
        let answer = answer_to(&mut client, post(9)).await;
        assert_eq!((answer.status(), answer.header("connection")), (413, None));
        for part in ["all ", "of ", "it"] {
            client.send(part).await.unwrap();
        }
    }
    let whole = |seen: &[Vec<u8>]| {
        seen.iter()
            .filter(|seen| seen.ends_with(b"all of it"))
            .count()
    };
    lab.upstream
        .wait_for(LONG, |seen| whole(seen) == seen.len())
        .await;
    let bodies: Vec<_> = lab
        .upstream
        .requests()
        .into_iter()
        .map(|request| request.body)
        .collect();
    assert_eq!(bodies, [b"all of it"; 3]);
}

/// The body has deadlines of its own: that of a head is none of them, and nothing of it is a request.
#[tokio::test]
async fn an_upload_outlives_its_answer() {
    let upstream = RawUpstream::start(When::Head, |_| vec![Action::send(REFUSED)]);
    let lab = Lab::around(upstream, &format!("timeouts: {{ header: 300ms }}\n{ALL}")).await;
    let smug = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";
    let chunk = format!("{:x}\r\n{smug}\r\n", smug.len());
    for (framing, part, end) in [
        (format!("Content-Length: {}", 20 * smug.len()), smug, ""),
        (
            "Transfer-Encoding: chunked".to_owned(),
            &*chunk,
            "0\r\n\r\n",
        ),
    ] {
        let mut client = lab.connect().await;
        let head = format!("POST /upload HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        assert_eq!(answer_to(&mut client, head).await.status(), 413);
        for _ in 0..20 {
            sleep(Duration::from_millis(50)).await;
            client
                .send(part)
                .await
                .expect("the rest of the body is read");
        }
        // The connection is in step.
        assert_eq!(
            answer_to(&mut client, format!("{end}{}x", post(1)))
                .await
                .status(),
            413
        );
    }
    let requests = lab.upstream.requests();
    let lengths: Vec<usize> = requests.iter().map(|request| request.body.len()).collect();
    assert_eq!(lengths, [20 * smug.len(), 1, 20 * smug.len(), 1]);
    let is_upload = |request: &Message| request.start.contains("/upload");
    assert!(requests.iter().all(is_upload));
}

/// Nor does it count as idle at the upstream, whose idle connections are closed after half a minute.
#[tokio::test]
#[ignore = "takes 35 s"]
async fn a_long_upload_outlives_its_answer() {
    let upstream = RawUpstream::start(When::Head, |_| vec![Action::send(REFUSED)]);
    let lab = Lab::around(upstream, ALL).await;
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, post(34_000)).await.status(), 413);
    for second in 0..34 {
        sleep(Duration::from_secs(1)).await;
        if second == 32 {
            let other = Client::new(lab.gateway.address);
            assert_eq!(other.get("/").await.status, 413);
        }
        client.send("x".repeat(1_000)).await.unwrap();
    }
    let is_whole = |seen: &[Vec<u8>]| seen.iter().any(|seen| seen.len() > 34_000);
    lab.upstream.wait_for(LONG, is_whole).await;
}

/// It is held to the rate, too, and to nothing when nobody reads it.
#[tokio::test]
async fn an_upload_that_trickles_after_its_answer_is_cut_off() {
    let upstream = RawUpstream::start(When::Head, |_| vec![Action::send(REFUSED)]);
    let slow = "timeouts: { slow: { rate: 1000B/s, after: 300ms } }";
    let lab = Lab::around(upstream, &format!("{slow}\n{ALL}")).await;
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, post(100_000)).await.status(), 413);
    let deadline = Instant::now() + LONG;
    while client.send(".").await.is_ok() {
        assert!(Instant::now() < deadline, "it goes on for ever");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The client has the first part of the answer before the gateway has the last part of the request.
#[tokio::test]
async fn both_ways_stream_at_once() {
    let go_on = Arc::new(Notify::new());
    let waits = go_on.clone();
    let upstream = RawUpstream::start(When::Head, move |_| {
        vec![
            Action::send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"),
            Action::Until(waits.clone()),
            Action::send("4\r\nlast\r\n0\r\n\r\n"),
        ]
    });
    let lab = Lab::around(upstream, ALL).await;
    for client in [Client::new, Client::h2] {
        let client = client(lab.gateway.address);
        let (mut sender, request) = body::channel();
        let mut answer = client
            .open(http::Request::post("/").body(request).unwrap())
            .await;
        let first = answer.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "first");
        let complete = lab.upstream.requests().len();
        for part in ["more", "and more"] {
            sender.send_data(part.into()).await.unwrap();
            lab.upstream
                .wait_for(LONG, |seen| {
                    seen.concat().ends_with(format!("{part}\r\n").as_bytes())
                })
                .await;
        }
        assert_eq!(lab.upstream.requests().len(), complete, "not yet whole");
        drop(sender);
        go_on.notify_one();
        assert_eq!(
            answer.into_body().collect().await.unwrap().to_bytes(),
            "last"
        );
    }
}
