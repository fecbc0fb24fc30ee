use super::*;

fn response(bytes: &str) -> Read<Message> {
    Message::response(bytes.as_bytes(), false, false)
}

fn body_of(bytes: &str) -> String {
    let (message, used) = response(bytes).unwrap().expect("incomplete");
    assert_eq!(used, bytes.len());
    message.text().to_owned()
}

#[test]
fn a_body_ends_by_length_by_chunks_or_by_close() {
    assert_eq!(
        body_of("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"),
        "hello"
    );
    assert_eq!(body_of("HTTP/1.1 204 \r\nX: y\r\n\r\n"), "");
    assert_eq!(
        body_of("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"),
        ""
    );

    let chunks = "HTTP/1.1 200 OK\r\nA: 1\r\nTransfer-Encoding: Chunked\r\na:\t2 \r\n\r\n\
                  5;x=y\r\nhello\r\n00C\r\n\r\n0\r\n\r\nworld\r\n0\r\nSum: 7\r\n\r\n";
    let (message, used) = response(chunks).unwrap().unwrap();
    assert_eq!(
        (message.text(), used),
        ("hello\r\n0\r\n\r\nworld", chunks.len())
    );
    assert_eq!(message.trailers, [("Sum".to_owned(), "7".to_owned())]);
    assert_eq!((message.status(), message.all("a")), (200, vec!["1", "2"]));

    let close = "HTTP/1.0 200 OK\r\n\r\nuntil the end";
    assert_eq!(response(close), Ok(None));
    assert_eq!(
        Message::responses(close.as_bytes()).unwrap()[0].text(),
        "until the end"
    );
    let head = Message::response(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, false);
    assert_eq!(head.unwrap().unwrap().0.body, b"");
}

#[test]
fn a_message_cut_anywhere_is_incomplete_and_one_followed_by_another_ends_where_it_ends() {
    let chunks =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n";
    let length = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 5\r\n\r\nhello";
    for whole in [chunks, length] {
        for cut in 0..whole.len() {
            assert_eq!(response(&whole[..cut]), Ok(None), "{:?}", &whole[..cut]);
            let closed = Message::responses(&whole.as_bytes()[..cut]);
            assert_eq!(closed.is_err(), cut > 0, "{:?}", &whole[..cut]);
        }
        let followed = format!("{whole}HTTP/1.1");
        assert_eq!(response(&followed).unwrap().unwrap().1, whole.len());
    }
    let both =
        Message::responses(format!("HTTP/1.1 100 Continue\r\n\r\n{chunks}{length}").as_bytes())
            .unwrap();
    assert_eq!(
        both.iter().map(Message::status).collect::<Vec<_>>(),
        [100, 200, 429]
    );
}

#[test]
fn what_two_readers_could_read_differently_is_malformed() {
    for headers in [
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Content-Length: +1",
        "Content-Length: 1, 1",
        "Content-Length:",
        "Content-Length: 18446744073709551615",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "A: b\nC: d",
        "A: b\rC: d",
        "A: b\0",
        "A : b",
        "A: b\r\n c",
        "no colon",
        ": no name",
    ] {
        response(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n\r\n0\r\n\r\n")).expect_err(headers);
        Message::request(format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n0\r\n\r\n").as_bytes())
            .expect_err(headers);
    }
    for chunks in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello world\r\n0\r\n\r\n",
        "\r\n\r\n",
        "-1\r\n",
        "FFFFFFFFFFFFFFFF\r\n",
    ] {
        response(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
        ))
        .expect_err(chunks);
    }
    for start in [
        "HTTP/1.1 200",
        "HTTP/1.1 20 OK",
        "HTTP/1.1 099 OK",
        "HTTP/2 200 OK",
        "http/1.1 200 OK",
        "<html>",
    ] {
        response(&format!("{start}\r\n\r\n")).expect_err(start);
    }
    response("HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n").unwrap_err();
    for start in [
        "GET / HTTP/1.2",
        "GET /a b HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET / http/1.1",
        "GET",
    ] {
        Message::requests(format!("{start}\r\n\r\n").as_bytes()).expect_err(start);
    }
}

#[test]
fn pipelined_requests_are_told_apart() {
    let inner = "GET /SMUG HTTP/1.1\r\n\r\n";
    let posting = |length: usize| {
        let head = format!("POST /a HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
        Message::requests(format!("{head}{inner}GET /b HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes())
    };
    posting(inner.len() - 1).expect_err("a stray byte before the next request");
    let requests = posting(inner.len());
    let requests = requests.unwrap();
    assert_eq!(
        requests
            .iter()
            .map(|r| r.start.as_str())
            .collect::<Vec<_>>(),
        ["POST /a HTTP/1.1", "GET /b HTTP/1.1"]
    );
    assert_eq!(
        (requests[0].body.len(), requests[1].header("host")),
        (22, Some("x"))
    );
}
