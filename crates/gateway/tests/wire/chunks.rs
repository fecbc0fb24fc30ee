//! S8, S20: bodies in chunks that are none, and bodies of methods that usually have none.

use crate::lab::{ALL, Lab, shown};

const SMUG: &str = "GET /SMUG HTTP/1.1\r\nHost: a\r\n\r\n";

/// Whether it notices before or after it has sent the head on: what the upstream has got, it cannot
/// take for a whole request.
#[tokio::test]
async fn s8_a_broken_body_is_broken_off() {
    for body in [
        "5\nhello\r\n0\r\n\r\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a\n\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhelloXY0\r\n\r\n",
        "5\r\nhello\r\n\r\n\r\n",
        "5\r\nhello\r\n;\r\n\r\n",
        "\r\n\r\n",
        "0\n\r\n",
        "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5h\r\nhello\r\n0\r\n\r\n",
        "\u{665}\r\nhello\r\n0\r\n\r\n",
    ] {
        let lab = Lab::new(ALL).await;
        let case =
            format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}{SMUG}");
        for conversation in lab.every_way(case.as_bytes()).await {
            let answers = conversation.answers(case.as_bytes());
            let statuses: Vec<u16> = answers.iter().map(|answer| answer.status()).collect();
            assert_eq!(statuses, [400], "{}", shown(case.as_bytes()));
        }
        let requests = lab.upstream.requests();
        assert!(
            requests.is_empty(),
            "{}: {requests:#?}",
            shown(case.as_bytes())
        );
        lab.saw_nothing_smuggled(case.as_bytes());
    }
}

/// hyper takes a bare line feed here for the first of the trailers, and with it all up to the next
/// empty line. A reader that takes it for the end of the body sees a request there; nobody behind
/// this gateway does.
#[tokio::test]
async fn s8_what_follows_a_last_chunk_is_never_a_request_of_its_own() {
    let lab = Lab::new(ALL).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for request in lab
        .answers(format!("{head}0\r\n\n{SMUG}{last}"), &[200, 200])
        .await
    {
        assert_eq!((request.text(), request.trailers.len()), ("", 0));
    }
}

#[tokio::test]
async fn a_body_in_chunks_arrives_without_what_stood_around_them() {
    let lab = Lab::new(ALL).await;
    let case = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n\
        5;name=\"value\"\r\nhello\r\n00001\r\n \r\nA;x\r\nwide world\r\n000\r\n\r\n";
    for request in lab.answers(case, &[200]).await {
        assert_eq!(request.text(), "hello wide world");
    }
    assert!(
        !lab.upstream.saw("name="),
        "extensions concern one connection only"
    );
}

#[tokio::test]
async fn s20_any_method_may_have_a_body_and_the_next_request_is_in_step() {
    const BODY: &str = "GET /SMUG HTTP/1.1\r\n\r\n";
    let lab = Lab::new(ALL).await;
    let length = format!("Content-Length: {}\r\n\r\n{BODY}", BODY.len());
    let chunks = format!(
        "Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{BODY}\r\n0\r\n\r\n",
        BODY.len()
    );
    for method in ["GET", "DELETE", "OPTIONS", "PROPFIND"] {
        for (header, framed) in [("content-length", &length), ("transfer-encoding", &chunks)] {
            let case = format!(
                "{method} /first HTTP/1.1\r\nHost: a\r\n{framed}\
                 GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            );
            let conversations = lab.every_way(case.as_bytes()).await;
            for conversation in &conversations {
                assert_eq!(conversation.answers(case.as_bytes()).len(), 2);
            }
            let requests = lab.upstream.requests();
            let (first, last): (Vec<_>, Vec<_>) = requests
                .iter()
                .rev()
                .take(2 * conversations.len())
                .partition(|request| request.start == format!("{method} /first HTTP/1.1"));
            assert_eq!(
                (first.len(), last.len()),
                (conversations.len(), conversations.len())
            );
            for request in first {
                let lengths = ["content-length", "transfer-encoding"].map(|h| request.all(h).len());
                assert_eq!(lengths.iter().sum::<usize>(), 1, "{request:?}");
                assert!(request.header(header).is_some(), "{request:?}");
                assert_eq!(request.text(), BODY);
            }
            for request in last {
                assert_eq!(request.start, "GET /last HTTP/1.1");
            }
        }
    }
    assert_eq!(lab.upstream.malformed(), []);
}
