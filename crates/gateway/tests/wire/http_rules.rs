//! Rules of HTTP for proxies, as docs/http.md tells them.

use tidegate_testkit::{Action, Client, End, Message, RawClient, RawUpstream, When};

use crate::lab::{ALL, LONG, Lab, OK};
use crate::support::asking::{answer_to, raw_status, send_get};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// The one answer to these bytes, and how the connection ended.
async fn ask(lab: &Lab, bytes: &str) -> (String, End) {
    let mut client = lab.connect().await;
    client.send(bytes).await.unwrap();
    let (answer, end) = client.read_to_close(LONG).await;
    (String::from_utf8(answer).unwrap(), end)
}

async fn upstream_head(request: &str) -> Message {
    let lab = Lab::new(ALL).await;
    let (answer, _) = ask(&lab, request).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    lab.upstream.requests().remove(0)
}

/// `TE` is of the connection, and says so (RFC 9110, 10.1.4).
#[tokio::test]
async fn te_is_named_by_connection() {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n";
    let request = upstream_head(request).await;
    assert_eq!(request.header("te"), Some("trailers"));
    assert_eq!(
        request.header("connection").map(str::to_lowercase),
        Some("te".to_owned())
    );
    let request = upstream_head("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!(request.header("connection"), None);
}

/// 426 says which protocol is wanted (RFC 9110, 15.5.22).
#[tokio::test]
async fn upgrade_required_says_to_what() {
    let answer = "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                  Content-Length: 2\r\n\r\nno";
    let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
    let mut client = lab.connect().await;
    send_get(&mut client, "/").await;
    let answer = client.response(LONG).await.unwrap();
    assert_eq!(answer.status(), 426);
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert_eq!(answer.header("connection"), Some("upgrade"));
    // HTTP/2 has no such header.
    let answer = Client::h2(lab.gateway.address).get("/").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("upgrade")),
        (426, None)
    );
    // No other answer has it.
    let answer =
        "HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok";
    let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
    let answer = Client::fresh(lab.gateway.address).get("/").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("upgrade")),
        (200, None)
    );
}

/// An answer whose length is not known ends with the connection, and says so.
#[tokio::test]
async fn an_answer_in_chunks_ends_the_connection_of_http_1_0() {
    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
    let request = "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let (answer, end) = ask(&lab, request).await;
    assert_eq!(end, End::Closed);
    let head = answer.to_lowercase();
    assert!(head.starts_with("http/1.0 200 ok\r\n"), "{answer}");
    assert!(!head.contains("keep-alive"), "{answer}");
    assert!(!head.contains("transfer-encoding"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    // With a length the connection is kept.
    let lab = Lab::new(ALL).await;
    let mut client = lab.connect().await;
    for _ in 0..2 {
        let answer = answer_to(&mut client, request).await;
        assert_eq!(answer.header("connection"), Some("keep-alive"));
    }
}

#[tokio::test]
async fn a_request_needs_a_host_in_http_1_0_as_well() {
    let lab = Lab::new(ALL).await;
    let (answer, _) = ask(&lab, "GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.contains("bad_host"), "{answer}");
}

#[tokio::test]
async fn nothing_is_asked_of_the_gateway_itself() {
    let lab = Lab::new(ALL).await;
    for request in [
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n",
    ] {
        let (answer, _) = ask(&lab, request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{request}: {answer}");
    }
    assert!(lab.upstream.requests().is_empty());
    let request = "OPTIONS /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\nVia: 1.1 b\r\nConnection: close\r\n\r\n";
    let request = upstream_head(request).await;
    assert_eq!(
        (request.header("max-forwards"), request.header("via")),
        (Some("0"), Some("1.1 b"))
    );
}

/// Other 1xx answers than 101 are for the connection to the upstream.
#[tokio::test]
async fn interim_answers_are_skipped() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n";
    let answer = format!("HTTP/1.1 100 Continue\r\n\r\n{}{OK}", hints.repeat(20));
    let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
    for client in [
        Client::new(lab.gateway.address),
        Client::h2(lab.gateway.address),
    ] {
        for _ in 0..2 {
            let answer = client.get("/").await;
            assert_eq!((answer.status.as_u16(), answer.text()), (200, "ok"));
        }
    }
    assert_eq!(lab.upstream.seen().len(), 1, "connections");
}

/// An upstream's answer has at most 100 headers.
#[tokio::test]
async fn an_answer_with_too_many_headers_is_a_502() {
    for (count, status) in [(99, 200), (100, 502)] {
        let more: String = (0..count).map(|n| format!("X-Part: {n}\r\n")).collect();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{more}\r\nok");
        let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
        let found = raw_status(lab.gateway.address, GET).await;
        assert_eq!(found, status, "{count}");
    }
}

/// And a head of at most 64 KiB.
#[tokio::test]
async fn an_answer_with_a_large_head_is_a_502() {
    for (bytes, status) in [(64_000, 200), (66_000, 502), (100_000, 502), (120_000, 502)] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Large: {}\r\n\r\nok",
            "x".repeat(bytes)
        );
        let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
        let found = raw_status(lab.gateway.address, GET).await;
        assert_eq!(found, status, "{bytes}");
    }
}

/// A client that closes its side has left.
#[tokio::test]
async fn a_client_that_closes_its_side_is_gone() {
    let upstream = RawUpstream::start(When::Request, |_| vec![Action::Hang]);
    let lab = Lab::around(upstream, ALL).await;
    let mut client = RawClient::connect(lab.gateway.address).await;
    send_get(&mut client, "/").await;
    lab.upstream.wait_for(LONG, |seen| !seen.is_empty()).await;
    client.finish().await;
    let (answer, end) = client.read_to_close(LONG).await;
    assert_eq!((answer, end), (vec![], End::Closed));
}
