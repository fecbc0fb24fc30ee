use super::*;
use crate::{End, RawClient};

const LONG: Duration = Duration::from_secs(10);
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

async fn ask(upstream: &RawUpstream) -> (String, End) {
    let (bytes, end) = RawClient::exchange(upstream.addr(), GET, Duration::from_millis(500)).await;
    (String::from_utf8(bytes).unwrap(), end)
}

#[tokio::test]
async fn each_accident_looks_like_itself_from_outside() {
    let plan = [
        (When::Accepted, vec![Action::Reset], "", End::Reset),
        (
            When::Request,
            vec![Action::send("x"), Action::Close],
            "x",
            End::Closed,
        ),
        (
            When::Request,
            vec![Action::send("x"), Action::Hang, Action::Close],
            "x",
            End::Deadline,
        ),
        (
            When::Head,
            vec![Action::Pause(Duration::from_millis(1)), Action::Reset],
            "",
            End::Reset,
        ),
    ];
    for (when, actions, bytes, end) in plan {
        let upstream = RawUpstream::start(when, move |_| actions.clone());
        assert_eq!(ask(&upstream).await, (bytes.to_owned(), end));
    }
    let endless = RawUpstream::start(When::Head, |_| {
        vec![Action::Repeat("HTTP/1.1 100 Continue\r\n\r\n".into())]
    });
    let (bytes, end) = ask(&endless).await;
    assert!(bytes.len() > 10_000 && end == End::Deadline);
}

#[tokio::test]
async fn requests_are_told_apart_and_every_byte_is_kept() {
    let go = Arc::new(Notify::new());
    let wait = Arc::clone(&go);
    let upstream = RawUpstream::start(When::Request, move |turn| {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}-{}",
            turn.connection, turn.request
        );
        vec![Action::Until(Arc::clone(&wait)), Action::send(answer)]
    });
    _ = RawClient::connect(upstream.addr()).await;
    upstream.wait_for(LONG, |seen| seen.len() == 1).await;
    let mut client = RawClient::connect(upstream.addr()).await;
    let sent = format!(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n{GET}SMUG"
    );
    client.send_split(&sent, 60).await.unwrap();
    upstream
        .wait_for(LONG, |seen| seen[1].len() == sent.len())
        .await;
    for expected in ["1-0", "1-1"] {
        go.notify_one();
        assert_eq!(client.response(LONG).await.unwrap().text(), expected);
    }
    assert_eq!(
        (upstream.seen(), upstream.saw("SMUG")),
        (vec![vec![], sent.into_bytes()], true)
    );
    assert_eq!(
        (upstream.requests().len(), upstream.requests()[0].text()),
        (2, "abc")
    );
    assert!(upstream.malformed().is_empty());

    client.send("GE\0T / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(client.read_to_close(LONG).await, (vec![], End::Closed));
    assert_eq!(upstream.malformed().len(), 1);
}
