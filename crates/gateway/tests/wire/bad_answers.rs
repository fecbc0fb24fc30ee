//! S19: answers that two readers could read in two ways, and what is no answer at all.

use std::time::Duration;

use tidegate_testkit::{Action, Message, RawClient, RawUpstream, Turn, When};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::lab::{ALL, LONG, Lab, OK, gateway};
use crate::support::asking::send_get;

/// An upstream that answers with these bytes, cut where the request's `X-Cut` says.
fn answering_in_two_parts(answer: &'static [u8]) -> RawUpstream {
    RawUpstream::start(When::Request, move |turn| {
        let (first, rest) = answer.split_at(cut(&turn));
        let pause = Action::Pause(Duration::from_millis(2));
        vec![Action::send(first), pause, Action::send(rest)]
    })
}

fn cut(turn: &Turn) -> usize {
    let requests = Message::requests(&turn.bytes).unwrap();
    requests[0].header("x-cut").unwrap().parse().unwrap()
}

/// Asks once for each way to cut the answer, on one connection, and gives the answers' statuses.
async fn statuses(lab: &Lab, answer: &[u8], method: &str) -> Vec<u16> {
    let mut client = RawClient::connect(lab.gateway.address).await;
    let mut statuses = Vec::new();
    for at in 0..answer.len() {
        statuses.push(ask(&mut client, method, at).await.status());
    }
    statuses
}

async fn ask(client: &mut RawClient, method: &str, cut: usize) -> Message {
    let request = format!("{method} / HTTP/1.1\r\nHost: a\r\nX-Cut: {cut}\r\n\r\n");
    client.send(request).await.unwrap();
    let answer = if method == "HEAD" {
        client.response_to_head(LONG).await
    } else {
        client.response(LONG).await
    };
    answer.unwrap_or_else(|e| panic!("{method}, cut at {cut}: {e}"))
}

#[tokio::test]
async fn s19_an_answer_with_two_readings_is_a_502_and_its_connection_is_not_used_again() {
    const ANSWERS: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok?",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nok?",
        b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\0b\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\rb\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: a\r\n b\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n Content-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nno colon\r\n\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.2 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"ICY 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"<html>as in 0.9</html>\r\n",
        b"\x16\x03\x01\x00\x02\x02\x28",
    ];
    for answer in ANSWERS {
        let lab = Lab::around(answering_in_two_parts(answer), ALL).await;
        let statuses = statuses(&lab, answer, "GET").await;
        let told = String::from_utf8_lossy(answer);
        assert_eq!(statuses, vec![502; answer.len()], "{told}");
        assert_eq!(
            lab.upstream.seen().len(),
            answer.len(),
            "{told}: a connection for each"
        );
    }
}

const MORE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-For: nobody\r\n\r\nSMUG";

const ENDED: [(&str, &str); 5] = [
    ("GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    (
        "GET",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("GET", "HTTP/1.1 204 No Content\r\n\r\n"),
    (
        "GET",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 60\r\n\r\n",
    ),
    ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n"),
];

/// What comes together with the end of an answer is not kept for whoever asks next.
#[tokio::test]
async fn s19_what_follows_an_answer_is_nobodys() {
    for (method, head) in ENDED {
        let answer: &[u8] = format!("{head}{MORE}").leak().as_bytes();
        let lab = Lab::around(answering_in_two_parts(answer), ALL).await;
        let mut client = RawClient::connect(lab.gateway.address).await;
        for at in 0..head.len() {
            let got = ask(&mut client, method, at).await;
            assert!(
                head.contains(&format!(" {} ", got.status())),
                "{head} cut at {at}: {got:?}"
            );
            assert_eq!(got.header("x-for"), None, "{head} cut at {at}: {got:?}");
        }
        assert_eq!(
            lab.upstream.seen().len(),
            head.len(),
            "{head}: a connection for each"
        );
    }
}

/// What comes later, while nobody has asked, ends the connection.
#[tokio::test]
async fn s19_what_comes_unasked_is_nobodys() {
    for (method, head) in ENDED {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = gateway(format!("http://{address}"), ALL).await;
        let mut client = RawClient::connect(gateway.address).await;
        let accept = async || BufReader::new(listener.accept().await.unwrap().0);
        let (first, mut upstream) = tokio::join!(ask(&mut client, method, 0), async {
            let mut upstream = accept().await;
            read_head(&mut upstream).await;
            upstream.write_all(head.as_bytes()).await.unwrap();
            upstream
        });
        assert_eq!(first.header("x-for"), None);
        upstream.write_all(MORE.as_bytes()).await.unwrap();
        let closed = timeout(LONG, upstream.read(&mut [0; 1])).await;
        assert!(matches!(closed, Ok(Ok(0) | Err(_))), "{head}: {closed:?}");
        let (second, ()) = tokio::join!(ask(&mut client, method, 1), async {
            let mut upstream = accept().await;
            read_head(&mut upstream).await;
            upstream.write_all(head.as_bytes()).await.unwrap();
        });
        assert_eq!(second.header("x-for"), None);
    }
}

async fn read_head(upstream: &mut BufReader<TcpStream>) {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        upstream.read_line(&mut line).await.unwrap();
    }
}

#[tokio::test]
async fn s19_promises_without_end_are_no_answer() {
    for promise in [
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    ] {
        let upstream = RawUpstream::start(When::Request, move |turn| match turn.connection {
            0 => vec![Action::Repeat(promise.into())],
            _ => vec![Action::send(OK)],
        });
        let lab = Lab::around(upstream, ALL).await;
        let mut client = RawClient::connect(lab.gateway.address).await;
        let mut statuses = Vec::new();
        for _ in 0..2 {
            send_get(&mut client, "/").await;
            statuses.push(client.response(LONG).await.unwrap().status());
        }
        assert_eq!(statuses, [502, 200]);
        assert_eq!(lab.upstream.seen().len(), 2);
    }
}

#[tokio::test]
async fn s19_promises_before_an_answer_stay_here() {
    let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let lab = Lab::around(answering_in_two_parts(answer.as_bytes()), ALL).await;
    assert_eq!(
        statuses(&lab, answer.as_bytes(), "GET").await,
        vec![200; answer.len()]
    );
    assert_eq!(lab.upstream.seen().len(), 1, "the connection is good");
}
