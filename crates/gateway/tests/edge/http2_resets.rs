//! RST_STREAM with the code NO_ERROR cuts a message off, although hyper ends its body without an error.

use std::time::Duration;

use h2::{Reason, server::Builder};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tidegate_testkit::{Action, Client, RawUpstream, When, body};
use tokio::time::timeout;

use crate::bench::{ALL, LONG, gateway};
use crate::frames::{DATA, END_HEADERS, Frames, HEADERS, RST_STREAM, frame, headers};
use crate::h2c::H2c;
use crate::raw_h2c::{RawH2c, STATUS_200};

const NO_ERROR: [u8; 4] = [0; 4];

/// An upload that is cut off is not a complete request for an upstream of HTTP/1.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_upload_that_is_cut_off_is_never_complete_upstream() {
    let upstream = RawUpstream::start(When::Request, |_| {
        vec![Action::send(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        )]
    });
    let gateway = gateway(upstream.url(), ALL).await;
    for n in 0..50 {
        let mut client = Frames::connect(gateway.address, &[]).await;
        let head = frame(HEADERS, END_HEADERS, 1, &headers("POST", "/", &[]));
        let part = frame(DATA, 0, 1, b"hello");
        client.send(&[head, part]).await.unwrap();
        upstream
            .wait_for(LONG, |seen| {
                let part = |seen: &&Vec<u8>| seen.ends_with(b"hello\r\n");
                seen.iter().filter(part).count() > n
            })
            .await;
        let reset = frame(RST_STREAM, 0, 1, &NO_ERROR);
        client.send(&[reset]).await.unwrap();
        // The answer to the next request shows that the reset was read.
        let ping = frame(crate::frames::PING, 0, 0, &[0; 8]);
        client.send(&[ping]).await.unwrap();
        client.close(LONG).await;
    }
    // Each upload had a connection of its own, which the gateway closes behind the part.
    assert_eq!(upstream.seen().len(), 50);
    assert_eq!(upstream.requests().len(), 0, "complete requests");
}

/// An answer that is cut off is not a complete answer for the client.
#[tokio::test]
async fn an_answer_that_is_cut_off_is_never_complete_for_the_client() {
    let upstream = H2c::start(Builder::new(), |mut asked| async move {
        let head = Response::new(());
        let mut sending = asked.respond.send_response(head, false).unwrap();
        sending.send_data("hello".into(), false).unwrap();
        // The client has the part before the rest is cut off.
        let mut body = asked.request.into_body();
        _ = body.data().await;
        sending.send_reset(Reason::NO_ERROR);
    })
    .await;
    let gateway = gateway(&upstream.url, ALL).await;
    for client in [Client::fresh(gateway.address), Client::h2(gateway.address)] {
        for _ in 0..10 {
            let (mut sender, streamed) = body::channel();
            let mut answer = client
                .open(Request::post("/").body(streamed).unwrap())
                .await;
            assert_eq!(answer.status(), 200);
            let part = answer.body_mut().frame().await.unwrap().unwrap();
            assert_eq!(part.into_data().unwrap(), "hello");
            sender.send_data("go on".into()).await.unwrap();
            let rest = timeout(LONG, answer.into_body().collect()).await.unwrap();
            assert!(rest.is_err(), "a complete answer: {rest:?}");
        }
    }
}

/// After the end of an answer the reset only says that the rest of the upload is not wanted.
#[tokio::test]
async fn an_early_answer_that_is_complete_stays_complete() {
    let upstream = H2c::start(Builder::new(), |mut asked| async move {
        let head = Response::new(());
        let mut sending = asked.respond.send_response(head, false).unwrap();
        sending.send_data("early".into(), true).unwrap();
        // The answer is on its way when more of the upload comes.
        _ = asked.request.body_mut().data().await;
        sending.send_reset(Reason::NO_ERROR);
    })
    .await;
    let gateway = gateway(&upstream.url, ALL).await;
    for client in [Client::fresh(gateway.address), Client::h2(gateway.address)] {
        let (_unfinished, streamed) = body::channel();
        let answer = client
            .open(Request::post("/").body(streamed).unwrap())
            .await;
        let whole = timeout(LONG, answer.into_body().collect()).await.unwrap();
        assert_eq!(whole.unwrap().to_bytes(), "early");
    }
}

/// A client does not get the head of an answer whose stream is reset directly behind it: it gets an answer that says so.
#[tokio::test]
async fn an_answer_that_is_reset_directly_after_its_head_is_a_502() {
    for code in [0_u32, 2] {
        let upstream = RawH2c::start(move |kind, stream, _| match kind {
            HEADERS => {
                let head = frame(HEADERS, END_HEADERS, stream, &STATUS_200);
                [head, frame(RST_STREAM, 0, stream, &code.to_be_bytes())].concat()
            }
            _ => vec![],
        })
        .await;
        let gateway = gateway(&upstream.url, ALL).await;
        for client in [Client::fresh(gateway.address), Client::h2(gateway.address)] {
            for _ in 0..5 {
                let answer = client.get("/").await;
                assert_eq!(answer.status, 502, "code {code}");
                assert!(answer.text().contains("upstream_failed"));
            }
        }
        assert_eq!(upstream.connections(), 1);
    }
}

#[tokio::test]
async fn an_upload_of_a_client_that_went_silent_is_never_complete_upstream() {
    let upstream = RawUpstream::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let slow = "timeouts: { slow: { after: 400ms }, idle: 1s }";
    let gateway = gateway(upstream.url(), &format!("{slow}\n{ALL}")).await;
    let mut client = Frames::connect(gateway.address, &[]).await;
    let head = frame(HEADERS, END_HEADERS, 1, &headers("POST", "/", &[]));
    let part = frame(DATA, 0, 1, b"hello");
    client.send(&[head, part]).await.unwrap();
    client.heard(Duration::from_secs(60)).await;
    assert_eq!(upstream.requests().len(), 0, "complete requests");
}
