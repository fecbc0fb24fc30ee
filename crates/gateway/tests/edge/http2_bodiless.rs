//! Answers that have no body by their status: clients of HTTP/2 take a length there for a broken message.

use h2::server::Builder;
use http::{Request, Response, StatusCode};
use tidegate_testkit::{Answer, Client, RawUpstream, body};

use crate::bench::{ALL, gateway};
use crate::h2c::H2c;

/// What clients of both protocols get of this answer of an upstream of HTTP/1.
async fn of_http1(method: &str, answer: &'static str) -> [Answer; 2] {
    let upstream = RawUpstream::answering(answer);
    ask(method, &upstream.url()).await
}

/// The same of an upstream of HTTP/2.
async fn of_http2(method: &str, status: u16, length: &'static str) -> [Answer; 2] {
    let upstream = H2c::start(Builder::new(), move |mut asked| async move {
        let head = Response::builder().status(status);
        let head = head.header("content-length", length).body(());
        asked.respond.send_response(head.unwrap(), true).unwrap();
    })
    .await;
    ask(method, &upstream.url).await
}

async fn ask(method: &str, url: &str) -> [Answer; 2] {
    let gateway = gateway(url, ALL).await;
    let request = || {
        let request = Request::builder().method(method).uri("/");
        request.body(body::empty()).unwrap()
    };
    let http1 = Client::fresh(gateway.address).request(request()).await;
    let http2 = Client::h2(gateway.address).request(request()).await;
    [http1, http2]
}

#[tokio::test]
async fn a_status_without_a_body_has_no_length() {
    for (status, line) in [(204, "204 No Content"), (304, "304 Not Modified")] {
        for length in ["0", "5"] {
            let answer = format!("HTTP/1.1 {line}\r\nContent-Length: {length}\r\n\r\n");
            let answers = of_http1("GET", answer.leak()).await;
            let answers = answers
                .into_iter()
                .chain(of_http2("GET", status, length).await);
            for answer in answers {
                assert_eq!(answer.status, status);
                assert_eq!(answer.header("content-length"), None, "{status} {length}");
                assert_eq!(answer.text(), "");
            }
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_keeps_the_length_that_get_would_have() {
    let answers = of_http1("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n").await;
    let answers = answers.into_iter().chain(of_http2("HEAD", 200, "5").await);
    for answer in answers {
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.header("content-length"),
            Some("5"),
            "{:?}",
            answer.version
        );
    }
    // Without a length none is made up.
    let answers = of_http1(
        "HEAD",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    )
    .await;
    for answer in answers {
        assert_eq!(
            answer.header("content-length"),
            None,
            "{:?}",
            answer.version
        );
    }
}

/// 205 is framed like any other answer (RFC 9112, 6.3): what the upstream sends is what the client gets.
#[tokio::test]
async fn a_reset_of_content_is_framed_as_the_upstream_did() {
    let empty = "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n";
    for answer in of_http1("GET", empty).await {
        assert_eq!(answer.status, StatusCode::RESET_CONTENT);
        assert_eq!(
            answer.header("content-length"),
            Some("0"),
            "{:?}",
            answer.version
        );
        assert_eq!(answer.text(), "");
    }
    let full = "HTTP/1.1 205 Reset Content\r\nContent-Length: 2\r\n\r\nok";
    for answer in of_http1("GET", full).await {
        assert_eq!(answer.text(), "ok", "{:?}", answer.version);
    }
}

/// Of an upstream that sends a body with such a status nobody gets any.
#[tokio::test]
async fn a_body_after_a_status_without_one_is_nobodys() {
    let upstream = H2c::start(Builder::new(), |mut asked| async move {
        let head = Response::builder().status(204).body(()).unwrap();
        let mut sending = asked.respond.send_response(head, false).unwrap();
        sending.send_data("nobody's".into(), true).unwrap();
    })
    .await;
    for answer in ask("GET", &upstream.url).await {
        assert_eq!((answer.status.as_u16(), answer.text()), (204, ""));
    }
}
