//! S12, S13: a refusal is an answer before the body was read; what is left of it is never taken for
//! a request.

use tidegate_testkit::{End, Message, RawClient};

use crate::lab::{LONG, Lab, ONE_A_DAY};
use crate::support::asking::{answer_to, send_get};

/// The rest of a body that would be a request of its own, to a route without a limit.
const SMUG: &str = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";

/// A client whose limit is used up.
async fn exhausted(lab: &Lab) -> RawClient {
    let mut client = lab.connect().await;
    send_get(&mut client, "/").await;
    assert_eq!(client.response(LONG).await.unwrap().status(), 200);
    client
}

/// The head, cut at each of its bytes, with the first part of the body. When the refusal is there, the rest follows. Then comes a
/// request that is in step if the connection is.
async fn refusal_then_rest(head: &str, first: &str, rest: &str) {
    let lab = Lab::new(ONE_A_DAY).await;
    let start = format!("{head}{first}");
    for at in 0..start.len() {
        let mut client = exhausted(&lab).await;
        client.send_split(&start, at).await.unwrap();
        let refusal = client.response(LONG).await.unwrap();
        assert_eq!(refusal.status(), 429, "split at {at}");
        let closing = refusal.header("connection") == Some("close");
        // Whoever keeps the connection open must take all of this for what it is.
        let last = "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let sent = client.send(format!("{rest}{last}")).await;
        let (more, end) = client.read_to_close(LONG).await;
        let more = Message::responses(&more).unwrap();
        let statuses: Vec<u16> = more.iter().map(Message::status).collect();
        assert_eq!(end, End::Closed, "split at {at}: {sent:?}");
        if closing {
            assert_eq!(statuses, [0; 0], "split at {at}: {more:#?}");
        } else {
            assert!(
                matches!(statuses[..], [] | [429]),
                "split at {at}: {more:#?}"
            );
        }
    }
    assert_eq!(
        lab.upstream.requests().len(),
        start.len(),
        "only what used the limits up"
    );
    lab.saw_nothing_smuggled(start.as_bytes());
}

#[tokio::test]
async fn s12_the_rest_of_a_refused_body_is_no_request() {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
        10 + SMUG.len()
    );
    refusal_then_rest(&head, "0123456789", SMUG).await;
    refusal_then_rest(&head, "", &format!("0123456789{SMUG}")).await;
}

#[tokio::test]
async fn s12_nor_are_the_chunks_of_one() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let size = format!("{:x}\r\n", 10 + SMUG.len());
    refusal_then_rest(
        head,
        &format!("{size}0123456789"),
        &format!("{SMUG}\r\n0\r\n\r\n"),
    )
    .await;
    refusal_then_rest(head, "", &format!("{size}0123456789{SMUG}\r\n0\r\n\r\n")).await;
    refusal_then_rest(head, "5\r\nhello\r\n0\r\n", &format!("X: y\r\n\r\n{SMUG}")).await;
}

/// All at once: the body is there when the refusal is made, and so is a request behind it.
#[tokio::test]
async fn s12_a_pipelined_body_is_skipped_as_a_whole_or_the_connection_ends() {
    for (header, body) in [
        (format!("Content-Length: {}", SMUG.len()), SMUG.to_owned()),
        (
            "Transfer-Encoding: chunked".into(),
            format!("{:x}\r\n{SMUG}\r\n0\r\n\r\n", SMUG.len()),
        ),
    ] {
        let lab = Lab::new(ONE_A_DAY).await;
        let case = format!(
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n\
             POST / HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n{body}\
             GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        );
        let conversations = lab.every_way(case.as_bytes()).await;
        for conversation in &conversations {
            let answers = conversation.answers(case.as_bytes());
            let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
            assert!(
                matches!(statuses[..], [200, 429] | [200, 429, 429]),
                "{statuses:?}"
            );
        }
        assert_eq!(lab.upstream.requests().len(), conversations.len());
        lab.saw_nothing_smuggled(case.as_bytes());
    }
}

/// The client sends far more than anybody buffers before it looks for an answer.
#[tokio::test]
async fn s12_a_refused_upload_learns_why() {
    let lab = Lab::new(ONE_A_DAY).await;
    for header in ["Content-Length: 20000000", "Transfer-Encoding: chunked"] {
        let mut client = exhausted(&lab).await;
        client
            .send(format!("POST / HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n"))
            .await
            .unwrap();
        let part = if header.ends_with("chunked") {
            "4\r\nxxxx\r\n"
        } else {
            "xxxxxxxxx"
        };
        let upload = part.repeat(200_000);
        assert_eq!(answer_to(&mut client, upload).await.status(), 429);
        assert_eq!(client.read_to_close(LONG).await, (vec![], End::Closed));
    }
    assert_eq!(lab.upstream.requests().len(), 2);
}

/// More than any upload that a client of good will sends before it reads why. The rest is not read, so that it costs nothing.
#[tokio::test]
async fn s12_a_refused_upload_without_end_comes_to_a_halt() {
    const MOST: usize = 64 << 20;
    let lab = Lab::new(ONE_A_DAY).await;
    let part = "x".repeat(64 << 10);
    for head in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000000\r\n\r\n",
        "no HTTP\r\n\r\n",
    ] {
        let mut client = exhausted(&lab).await;
        client.send(head).await.unwrap();
        let mut sent = 0;
        while client.send(&part).await.is_ok() {
            sent += part.len();
            // Some of it waits in the buffers of both sockets.
            assert!(sent < MOST + (32 << 20), "all of it is read");
        }
    }
}

#[tokio::test]
async fn s13_who_asks_before_sending_a_body_is_refused_without_being_asked_for_it() {
    let lab = Lab::new(ONE_A_DAY).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 34\r\n\r\n";
    for at in 0..head.len() {
        let mut client = exhausted(&lab).await;
        client.send_split(head, at).await.unwrap();
        let refusal = client.response(LONG).await.unwrap();
        assert_eq!(refusal.status(), 429, "no 100 before it");
        // A client that goes away from its body, and one that sends it all the same.
        client.send(SMUG).await.ok();
        let (more, _) = client.read_to_close(LONG).await;
        let more = Message::responses(&more).unwrap();
        assert!(
            more.iter().all(|answer| answer.status() == 429) && more.len() < 2,
            "{more:#?}"
        );
    }
    assert_eq!(lab.upstream.requests().len(), head.len());
    lab.saw_nothing_smuggled(head.as_bytes());
}

#[tokio::test]
async fn s13_who_asks_and_is_admitted_is_asked_for_the_body() {
    let lab = Lab::new(ONE_A_DAY).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    let mut client = lab.connect().await;
    assert_eq!(answer_to(&mut client, head).await.status(), 100);
    assert_eq!(answer_to(&mut client, "hi").await.status(), 200);
    let requests = lab.upstream.requests();
    assert_eq!(
        (requests[0].text(), requests[0].header("expect")),
        ("hi", None)
    );
    // The connection is in step.
    send_get(&mut client, "/last").await;
    assert_eq!(client.response(LONG).await.unwrap().status(), 429);
}
