//! Messages whose body is not what their headers suggest: HEAD, 204, 304, lengths, HTTP/1.0.

use http::Request;
use tidegate_testkit::{
    Action, Client, End, Message, RawClient, RawUpstream, Upstream, When, body,
};

use crate::lab::{ALL, LONG, Lab, gateway};
use crate::support::asking::{answer_to, send_get};

/// Asks twice on one connection, so that the second is out of step if the first is.
async fn ask(lab: &Lab, method: &str) -> [Message; 2] {
    let mut client = lab.connect().await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        client
            .send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await
            .unwrap();
        let answer = if method == "HEAD" {
            client.response_to_head(LONG).await
        } else {
            client.response(LONG).await
        };
        answers.push(answer.unwrap());
    }
    assert_eq!(
        lab.upstream.seen().len(),
        1,
        "the upstream's connection is good for both"
    );
    answers.try_into().unwrap()
}

#[tokio::test]
async fn the_answer_to_head_keeps_its_length_and_has_no_body() {
    for (answer, length) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            Some("1000"),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Some("0")),
        (
            "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\n",
            Some("7"),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            None,
        ),
        ("HTTP/1.1 200 OK\r\n\r\n", None),
    ] {
        let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
        for got in ask(&lab, "HEAD").await {
            assert_eq!(got.status().to_string(), answer[9..12]);
            assert_eq!(got.header("content-length"), length, "{answer}");
        }
        assert_eq!(lab.upstream.requests()[0].start, "HEAD / HTTP/1.1");
        // Over HTTP/2 as well.
        let request = Request::head("/").body(body::empty()).unwrap();
        let got = Client::h2(lab.gateway.address).request(request).await;
        assert_eq!(
            (got.header("content-length"), &got.body[..]),
            (length, &b""[..]),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn answers_that_have_no_body_have_none() {
    for (answer, length) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", None),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", None),
        ("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", None),
        // The length of what would be there may be told (RFC 9110, 8.6), but hyper does not.
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n",
            None,
        ),
        (
            "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n",
            Some("0"),
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Some("0")),
    ] {
        let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
        for got in ask(&lab, "GET").await {
            assert_eq!(got.status().to_string(), answer[9..12]);
            assert_eq!(got.header("content-length"), length, "{answer}");
            assert_eq!(
                (got.header("transfer-encoding"), got.text()),
                (None, ""),
                "{answer}"
            );
        }
    }
}

#[tokio::test]
async fn a_length_that_is_known_stays_known() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), ALL).await;
    for client in [Client::new, Client::h2] {
        let answer = client(gateway.address).post("/", "0123456789").await;
        assert_eq!(
            (answer.header("content-length"), answer.text()),
            (Some("10"), "0123456789")
        );
        assert_eq!(answer.header("transfer-encoding"), None);
    }
    for request in upstream.requests() {
        assert_eq!(request.header("content-length"), Some("10"));
        assert_eq!(request.header("transfer-encoding"), None);
    }
}

#[tokio::test]
async fn a_request_without_a_body_gets_none_on_its_way() {
    let lab = Lab::around(
        RawUpstream::answering("HTTP/1.1 204 No Content\r\n\r\n"),
        ALL,
    )
    .await;
    for method in ["GET", "HEAD", "POST", "DELETE"] {
        ask(&lab, method).await;
        let request = lab.upstream.requests().pop().unwrap();
        assert_eq!(request.start, format!("{method} / HTTP/1.1"));
        let lengths = ["content-length", "transfer-encoding"].map(|name| request.header(name));
        assert_eq!(lengths, [None, None], "{method}");
    }
    let mut client = lab.connect().await;
    assert_eq!(
        answer_to(
            &mut client,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
        )
        .await
        .status(),
        204
    );
    assert_eq!(
        lab.upstream
            .requests()
            .pop()
            .unwrap()
            .header("content-length"),
        Some("0")
    );
}

/// It knows no chunks and no second request, unless it says so.
#[tokio::test]
async fn an_http_1_0_client_is_answered_in_http_1_0() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n";
    let sized = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for answer in [chunked, sized] {
        let lab = Lab::around(RawUpstream::answering(answer), ALL).await;
        let request = "GET / HTTP/1.0\r\nHost: a\r\n\r\n";
        let (said, end) = RawClient::exchange(lab.gateway.address, request, LONG).await;
        let answers = Message::responses(&said).unwrap();
        assert_eq!((answers.len(), end), (1, End::Closed));
        assert_eq!(
            (&*answers[0].start, answers[0].text()),
            ("HTTP/1.0 200 OK", "ok")
        );
        assert_eq!(answers[0].header("transfer-encoding"), None);
        assert_eq!(lab.upstream.requests()[0].start, "GET / HTTP/1.1");
    }
    let lab = Lab::around(RawUpstream::answering(sized), ALL).await;
    let mut client = lab.connect().await;
    for _ in 0..2 {
        let request = "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
        let answer = answer_to(&mut client, request).await;
        assert_eq!(
            (answer.header("connection"), answer.text()),
            (Some("keep-alive"), "ok")
        );
    }
}

#[tokio::test]
async fn an_http_1_0_upstream_is_understood() {
    let answer = "HTTP/1.0 200 OK\r\n\r\nuntil the end";
    let script = [Action::send(answer), Action::Close];
    let upstream = RawUpstream::start(When::Request, move |_| script.to_vec());
    let lab = Lab::around(upstream, ALL).await;
    let mut client = lab.connect().await;
    for _ in 0..2 {
        send_get(&mut client, "/").await;
        let got = client.response(LONG).await.unwrap();
        assert_eq!(
            (&*got.start, got.text()),
            ("HTTP/1.1 200 OK", "until the end")
        );
        assert_eq!(got.header("transfer-encoding"), Some("chunked"));
    }
}
