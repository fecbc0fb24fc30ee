//! How large a request may be: its target, its headers, its body, in HTTP/1 and HTTP/2.

use http::Request;
use tidegate_testkit::{Client, Message, RawClient, Upstream, body};

use crate::lab::{ALL, LONG, Lab, gateway};

/// The statuses that a request with this head gets, sent on a connection of its own.
async fn status(lab: &Lab, head: String) -> u16 {
    let mut client = RawClient::connect(lab.gateway.address).await;
    // What is refused early may be refused before all of it was sent.
    _ = client.send(format!("{head}\r\n")).await;
    client.response(LONG).await.unwrap().status()
}

fn get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{headers}")
}

#[tokio::test]
async fn a_target_has_8_kib_at_most() {
    let lab = Lab::new(ALL).await;
    let long = |length: usize| "a".repeat(length);
    assert_eq!(
        status(&lab, get(&format!("/{}", long(8191)), "")).await,
        200
    );
    assert_eq!(
        status(&lab, get(&format!("/?{}", long(8190)), "")).await,
        200
    );
    let longest = lab.upstream.requests();
    assert_eq!(longest[0].start.len(), "GET  HTTP/1.1".len() + 8192);
    for target in [
        format!("/{}", long(8192)),
        format!("/?{}", long(8191)),
        format!("http://a/{}", long(8192)),
        format!("http://{}/", long(8193)),
        format!("/{}", long(60 * 1024)),
        format!("/{}", long(100 * 1024)),
    ] {
        let shown = &target[..20];
        assert_eq!(
            status(&lab, get(&target, "")).await,
            414,
            "{shown} of {}",
            target.len()
        );
    }
    assert_eq!(lab.upstream.requests().len(), 2);
}

#[tokio::test]
async fn a_request_has_100_headers_and_32_kib_of_them_at_most() {
    let lab = Lab::new(ALL).await;
    let many = |count: usize| "X: y\r\n".repeat(count - 1);
    let large = |bytes: usize| format!("X: {}\r\n", "y".repeat(bytes - "hosta".len() - "x".len()));
    assert_eq!(status(&lab, get("/", &many(100))).await, 200);
    assert_eq!(status(&lab, get("/", &large(32 * 1024))).await, 200);
    for headers in [
        many(101),
        many(2000),
        large(32 * 1024 + 1),
        large(300 * 1024),
    ] {
        let length = headers.len();
        assert_eq!(
            status(&lab, get("/", &headers)).await,
            431,
            "{length} bytes"
        );
    }
    assert_eq!(lab.upstream.requests().len(), 2);
}

/// What is buffered of a head ends near what a head may have, and not at a multiple of that.
#[tokio::test]
async fn a_head_that_never_ends_is_refused_when_it_is_too_large() {
    let lab = Lab::new(ALL).await;
    for (unfinished, expected) in [
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "y".repeat(48 << 10)),
            431,
        ),
        (format!("GET /{}", "y".repeat(48 << 10)), 414),
    ] {
        let mut client = RawClient::connect(lab.gateway.address).await;
        _ = client.send(&unfinished).await;
        let answer = client.response(LONG).await.unwrap();
        assert_eq!(answer.status(), expected, "{answer:?}");
    }
    assert_eq!(lab.upstream.requests().len(), 0);
}

#[tokio::test]
async fn http_2_has_the_same_limits_but_half_the_room_for_headers() {
    let upstream = Upstream::ok();
    let gateway = gateway(upstream.url(), ALL).await;
    let client = Client::h2(gateway.address);
    let ask = async |target: &str, headers: Vec<(&str, String)>| {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        client
            .request(request.body(body::empty()).unwrap())
            .await
            .status
    };
    let long = |length: usize| "a".repeat(length);
    assert_eq!(ask(&format!("/{}", long(8191)), vec![]).await, 200);
    assert_eq!(ask(&format!("/{}", long(8192)), vec![]).await, 414);
    assert_eq!(ask("/", vec![("x", "y".into()); 90]).await, 200);
    assert_eq!(ask("/", vec![("x", "y".into()); 101]).await, 431);
    assert_eq!(ask("/", vec![("x", long(15 * 1024))]).await, 200);
    assert_eq!(ask("/", vec![("x", long(17 * 1024))]).await, 431);
    assert_eq!(ask("/", vec![("x", long(6 * 1024)); 3]).await, 431);
    assert_eq!((upstream.count(), client.connections()), (3, 1));
}

/// Ten bytes at most, but for one route.
const TEN: &str = "
max_body: 10
routes:
  - { path: /large, upstream: UPSTREAM, max_body: 20 }
  - { path: /any, upstream: UPSTREAM, max_body: none }
  - { path: /**, upstream: UPSTREAM }
";

#[tokio::test]
async fn a_body_that_says_it_is_too_large_is_not_read() {
    let lab = Lab::new(TEN).await;
    for (path, most) in [("/", 10), ("/large", 20)] {
        let fits = post(
            path,
            &format!("Content-Length: {most}\r\n\r\n{}", "x".repeat(most)),
        );
        assert_eq!(statuses(&lab, &fits).await, [200]);
        let asked = format!(
            "Expect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            most + 1
        );
        assert_eq!(
            statuses(&lab, &post(path, &asked)).await,
            [413],
            "and is not asked for"
        );
        assert_eq!(
            statuses(&lab, &post(path, "Content-Length: 99999999999\r\n\r\n")).await,
            [413]
        );
    }
    let any = post(
        "/any",
        &format!("Content-Length: 1000\r\n\r\n{}", "x".repeat(1000)),
    );
    assert_eq!(statuses(&lab, &any).await, [200]);
    let seen = lab.upstream.seen().concat();
    let heads = String::from_utf8_lossy(&seen).matches("POST ").count();
    assert_eq!(
        (heads, lab.upstream.requests().len()),
        (3, 3),
        "of the others not even a head"
    );
}

#[tokio::test]
async fn a_body_that_grows_too_large_is_broken_off() {
    let lab = Lab::new(TEN).await;
    for (path, most) in [("/", 10), ("/large", 20)] {
        let chunks = |bytes: usize| {
            let chunks = "1\r\nx\r\n".repeat(bytes);
            post(path, &format!("Transfer-Encoding: chunked\r\n\r\n{chunks}"))
        };
        let fits = chunks(most) + "0\r\n\r\n";
        for at in [1, fits.len() - 20, fits.len() - 1] {
            let mut client = RawClient::connect(lab.gateway.address).await;
            client.send_split(&fits, at).await.unwrap();
            assert_eq!(client.response(LONG).await.unwrap().status(), 200);
        }
        let complete = lab.upstream.requests().len();
        let too_large = chunks(most + 1);
        for at in 1..too_large.len() {
            let mut client = RawClient::connect(lab.gateway.address).await;
            client.send_split(&too_large, at).await.unwrap();
            assert_eq!(
                client.response(LONG).await.unwrap().status(),
                413,
                "split at {at}"
            );
            client.finish().await;
            assert_eq!(client.read_to_close(LONG).await.0, b"", "split at {at}");
        }
        assert_eq!(
            lab.upstream.requests().len(),
            complete,
            "none arrived whole"
        );
        assert!(!lab.upstream.saw(&"x".repeat(most + 1)));
    }
}

fn post(path: &str, rest: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{rest}")
}

async fn statuses(lab: &Lab, request: &str) -> Vec<u16> {
    let (answers, _) = RawClient::exchange(lab.gateway.address, request, LONG).await;
    let answers = Message::responses(&answers).unwrap();
    answers.iter().map(Message::status).collect()
}
