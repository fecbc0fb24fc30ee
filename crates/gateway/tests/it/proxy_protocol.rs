//! The PROXY protocol in front of a connection: believed of trusted peers, an error of everybody else.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_testkit::{End, RawClient};

use crate::callers::{at, last_client, left};
use crate::kit::{Bench, LONG, answer_to, on_both_stores};

const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: a\r\nX-User-Id: rider\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
const TOLD: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 4711 443\r\n";
/// What both sides of an HTTP/2 connection begin with, the client's with its preface.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS: &[u8] = b"\x04\0\0\0\0\0";

/// A gateway whose trusted peer, 127.0.0.1, tells addresses by the PROXY protocol.
async fn told(store: &str) -> Bench {
    told_within(store, LONG).await
}

/// As [`told`], where the head of a request must have come within this time.
async fn told_within(store: &str, header: Duration) -> Bench {
    let header = header.as_millis();
    Bench::start(&format!(
        "
{store}
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}, {{ ip: {{ from: proxy_protocol }} }}]
forward_client: X-Client-Id
timeouts: {{ header: {header}ms }}
limits:
  own: {{ fixed_window: {{ limit: 100, window: 31d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [own] }}
"
    ))
    .await
}

async fn from(bench: &Bench, last: u8) -> RawClient {
    RawClient::connect_from([127, 0, 0, last], bench.gateway.address).await
}

/// Sends `start` and a request; gives back whom the upstream was told of.
async fn client_after(bench: &Bench, last: u8, start: &[u8]) -> String {
    let mut client = from(bench, last).await;
    assert_eq!(
        answer_to(&mut client, [start, REQUEST].concat())
            .await
            .status(),
        200,
        "{start:?}"
    );
    last_client(bench)
}

/// A header of version 2 with this command, family and block.
fn version_2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    let start = b"\r\n\r\n\0\r\nQUIT\n";
    [start, &[command, family][..], &length, block].concat()
}

/// The block of a source address, with 198.51.100.1 or 2001:db8::1 as the other end.
fn block(source: SocketAddr) -> Vec<u8> {
    let mut block = match source {
        SocketAddr::V4(source) => [source.ip().octets(), [198, 51, 100, 1]].concat(),
        SocketAddr::V6(source) => [source.ip().octets(), [0; 16]].concat(),
    };
    block.extend(source.port().to_be_bytes());
    block.extend(443_u16.to_be_bytes());
    block
}

async fn believed(store: &str) {
    let bench = told(store).await;
    let v4 = block("192.0.2.2:4711".parse().unwrap());
    let v6 = block("[2001:db8:1:2:3::4]:4711".parse().unwrap());
    let with_more = [&v4[..], b"\x04\0\x03abc"].concat();
    for (start, client) in [
        (TOLD.to_vec(), "ip:192.0.2.1"),
        (
            b"PROXY TCP6 2001:db8:1:2:3::5 ::1 1 2\r\n".to_vec(),
            "ip:2001:db8:1:2::",
        ),
        (version_2(0x21, 0x11, &v4), "ip:192.0.2.2"),
        (version_2(0x21, 0x21, &v6), "ip:2001:db8:1:2::"),
        (version_2(0x21, 0x11, &with_more), "ip:192.0.2.2"),
        // A connection that names no client is the proxy's own, and nobody vouches for what is said on it.
        (version_2(0x20, 0x00, b""), "ip:127.0.0.1"),
        (version_2(0x20, 0x11, &v4), "ip:127.0.0.1"),
        (version_2(0x21, 0x00, b""), "ip:127.0.0.1"),
        (version_2(0x21, 0x31, &[0; 216]), "ip:127.0.0.1"),
        (b"PROXY UNKNOWN\r\n".to_vec(), "ip:127.0.0.1"),
        (
            b"PROXY UNKNOWN 127.0.0.1 127.0.0.1 1 2\r\n".to_vec(),
            "ip:127.0.0.1",
        ),
        (b"".to_vec(), "ip:127.0.0.1"),
        // A told address is as trusted as if it had connected itself.
        (
            b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n".to_vec(),
            "user_id:rider",
        ),
    ] {
        assert_eq!(client_after(&bench, 1, &start).await, client, "{start:?}");
        let arrival = bench.upstream.requests().pop().unwrap();
        let user = client.starts_with("user_id").then_some("rider");
        assert_eq!(arrival.header("x-user-id"), user, "{start:?}");
        let hops = arrival.header("x-forwarded-for").unwrap();
        assert!(!hops.contains("6.6.6.6"), "{hops} after {start:?}");
    }
    // It is the told address's budget that was spent: twice of 192.0.2.2's, once of 192.0.2.1's.
    let mut client = from(&bench, 1).await;
    let answer = answer_to(&mut client, [TOLD, REQUEST].concat()).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("98"));
    // All requests of the connection are the told address's.
    let answer = answer_to(&mut client, REQUEST).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("97"));
    bench.stop().await;
}

#[tokio::test]
async fn a_trusted_peer_tells_whose_connection_it_is() {
    on_both_stores(believed).await;
}

async fn unbelieved(store: &str) {
    let bench = told(store).await;
    let v4 = version_2(0x21, 0x11, &block("192.0.2.2:4711".parse().unwrap()));
    for start in [TOLD, &v4] {
        let mut client = from(&bench, 2).await;
        _ = client.send([start, REQUEST].concat()).await;
        let (answer, end) = client.read_to_close(LONG).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 400 "),
            "{text}"
        );
        assert_ne!(end, End::Deadline);
    }
    assert_eq!(bench.upstream.count(), 0);
    // What is told does not count, not even against the one who is named.
    assert_eq!(left(&at(&bench, 2), "/", &[]).await, 99);
    assert_eq!(client_after(&bench, 2, b"").await, "ip:127.0.0.2");
    bench.stop().await;
}

#[tokio::test]
async fn a_stranger_who_tells_an_address_is_not_served() {
    on_both_stores(unbelieved).await;
}

#[tokio::test]
async fn a_header_that_is_broken_ends_the_connection_without_a_word() {
    let bench = told("store: memory").await;
    let v4 = block("192.0.2.2:4711".parse().unwrap());
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
    for start in [
        b"PROXY TCP4 192.0.2.1\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.1 4711 99999\r\n".to_vec(),
        b"PROXY TCP4 2001:db8::1 ::1 1 2\r\n".to_vec(),
        b"PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n".to_vec(),
        b"PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n".to_vec(),
        b"PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n".to_vec(),
        b"PROXY \r\n".to_vec(),
        long.into_bytes(),
        version_2(0x21, 0x11, &v4[..11]),
        version_2(0x21, 0x21, &v4),
        version_2(0x31, 0x11, &v4),
        version_2(0x22, 0x11, &v4),
        version_2(0x21, 0x44, &v4),
        version_2(0x20, 0x00, &[0; 5000]),
    ] {
        let mut client = from(&bench, 1).await;
        _ = client.send([&start[..], REQUEST].concat()).await;
        let (answer, end) = client.read_to_close(LONG).await;
        assert_eq!(answer, b"", "{start:?}");
        assert_ne!(end, End::Deadline, "{start:?}");
    }
    assert_eq!(bench.upstream.count(), 0);
    bench.stop().await;
}

#[tokio::test]
async fn a_header_that_does_not_come_to_its_end_is_not_waited_for() {
    const SHORT: Duration = Duration::from_millis(200);
    let bench = told_within("store: memory", SHORT).await;
    let whole = version_2(0x21, 0x11, &block("192.0.2.2:4711".parse().unwrap()));
    let unfinished = whole[..whole.len() - 1].to_vec();
    for start in [
        &b""[..],
        b"P",
        b"PROXY",
        &TOLD[..20],
        &unfinished[..5],
        &unfinished,
    ] {
        let mut client = from(&bench, 1).await;
        client.send(start).await.unwrap();
        let (answer, end) = client.read_to_close(LONG).await;
        assert_eq!((answer, end), (vec![], End::Closed), "{start:?}");
    }
    // A byte now and then does not help.
    let mut client = from(&bench, 1).await;
    let mut taken = 0;
    while taken < TOLD.len() && client.send([TOLD[taken]]).await.is_ok() {
        taken += 1;
        tokio::time::sleep(SHORT / 5).await;
    }
    assert!(taken < TOLD.len(), "a header may take for ever");
    assert_eq!(bench.upstream.count(), 0);
    bench.stop().await;
}

#[tokio::test]
async fn header_and_request_may_come_in_any_pieces() {
    let bench = told("store: memory").await;
    let v6 = version_2(
        0x21,
        0x21,
        &block("[2001:db8:1:2::4]:4711".parse().unwrap()),
    );
    for (start, told) in [(TOLD, "ip:192.0.2.1"), (&v6, "ip:2001:db8:1:2::")] {
        let bytes = [start, REQUEST].concat();
        for cut in 1..start.len() + 2 {
            let mut client = from(&bench, 1).await;
            client.send_split(&bytes, cut).await.unwrap();
            assert_eq!(client.response(LONG).await.unwrap().status(), 200, "{cut}");
            assert_eq!(last_client(&bench), told, "{cut}");
        }
        let mut client = from(&bench, 1).await;
        for byte in &bytes {
            client.send([*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(client.response(LONG).await.unwrap().status(), 200);
        assert_eq!(last_client(&bench), told);
    }
    bench.stop().await;
}

#[tokio::test]
async fn http2_may_follow_the_header() {
    let bench = told("store: memory").await;
    // GET /, http, x-user-id: rider, :authority: a, without compression.
    let mut headers = vec![0x82, 0x84, 0x86, 0x41, 1, b'a', 0x00, 9];
    headers.extend(b"x-user-id\x05rider");
    let length = u8::try_from(headers.len()).unwrap();
    let request = [&[0, 0, length, 0x01, 0x05, 0, 0, 0, 1][..], &headers].concat();
    let v2 = version_2(0x21, 0x11, &block("192.0.2.2:4711".parse().unwrap()));
    for (start, told) in [
        (TOLD, "ip:192.0.2.1"),
        (&v2, "ip:192.0.2.2"),
        (b"", "ip:127.0.0.1"),
    ] {
        for cut in [start.len(), start.len() + 10] {
            let before = bench.upstream.count();
            let mut client = from(&bench, 1).await;
            let bytes = [start, HTTP2, &request].concat();
            client.send_split(&bytes, cut).await.unwrap();
            bench.upstream.wait_for(before + 1, LONG).await;
            assert_eq!(last_client(&bench), told, "{start:?}");
            client.finish().await;
            let (answer, _) = client.read_to_close(LONG).await;
            assert_eq!(&answer[3..5], &SETTINGS[..2], "{answer:?}");
        }
    }
    // Neither does HTTP/2 make a stranger's word count.
    let mut client = from(&bench, 2).await;
    _ = client.send([TOLD, HTTP2, &request].concat()).await;
    let (_, end) = client.read_to_close(LONG).await;
    assert_ne!(end, End::Deadline);
    assert_eq!(bench.upstream.count(), 6);
    bench.stop().await;
}

/// Neither a cost, nor an address, nor a scheme is believed on a connection that names no client.
#[tokio::test]
async fn nothing_is_believed_on_a_connection_that_names_no_client() {
    let bench = Bench::start(
        "
trusted_proxies: [127.0.0.1]
clients: [{ ip: { from: proxy_protocol } }]
limits:
  own: { fixed_window: { limit: 100, window: 31d }, cost: { header: X-Cost, max: 50 } }
routes:
  - { path: /safe, upstream: UPSTREAM, redirect: https }
  - { path: /**, upstream: UPSTREAM, limits: [own] }
",
    )
    .await;
    let asks = "X-Cost: 50\r\nX-Forwarded-Proto: https\r\nX-Request-Id: mine\r\n\r\n";
    let told: &[u8] = b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n";
    let unknown: &[u8] = b"PROXY UNKNOWN\r\n";
    for (start, left, status, id) in [
        (unknown, "99", 308, false),
        (b"", "98", 308, false),
        (told, "48", 200, true),
    ] {
        let mut client = from(&bench, 1).await;
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{asks}");
        let answer = answer_to(&mut client, [start, request.as_bytes()].concat()).await;
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        let arrival = bench.upstream.requests().pop().unwrap();
        let proto = if id { "https" } else { "http" };
        assert_eq!(arrival.header("x-forwarded-proto"), Some(proto));
        assert_eq!(arrival.header("x-request-id") == Some("mine"), id);
        let request = format!("GET /safe HTTP/1.1\r\nHost: a\r\n{asks}");
        assert_eq!(answer_to(&mut client, &request).await.status(), status);
    }
    bench.stop().await;
}
