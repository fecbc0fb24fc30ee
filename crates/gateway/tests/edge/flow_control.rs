//! HTTP/2 clients that open their window by little, and those whose body is still coming when they are answered.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::{Request, Response};
use tidegate_testkit::{Action, Client, RawUpstream, Upstream, When, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::bench::{LONG, sample_becomes};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
    frame, headers,
};
use crate::support::TestGateway;

const TICK: Duration = Duration::from_millis(20);
const ACK: u8 = 1;
/// The hash of `alpha-key`.
const ALPHA: &str = "677509799af78b2efa2f2af71d0f906e0a0c50c048efd3b515625f788e92b99a";
const NO_ERROR: [u8; 4] = [0; 4];

/// Headers of a request, beside those that each has.
type Extra<'a> = &'a [(&'a str, &'a str)];

/// A connection whose frames are read one by one.
struct Wire(TcpStream);

/// What was read.
#[derive(Debug)]
struct Read {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Wire {
    async fn connect(address: SocketAddr, settings: &[u8]) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut wire = Self(stream);
        let hello = frame(SETTINGS, 0, 0, settings);
        let acknowledged = frame(SETTINGS, ACK, 0, &[]);
        wire.send(&[PREFACE.to_vec(), hello, acknowledged]).await;
        wire
    }

    async fn send(&mut self, frames: &[Vec<u8>]) {
        self.0.write_all(&frames.concat()).await.unwrap();
    }

    async fn read(&mut self) -> Read {
        let reading = async {
            let mut head = [0; 9];
            self.0.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload).await.unwrap();
            Read {
                kind: head[3],
                flags: head[4],
                stream: u32::from_be_bytes(head[5..].try_into().unwrap()),
                payload,
            }
        };
        timeout(LONG, reading).await.unwrap()
    }

    /// Reads until a frame is what is sought.
    async fn until(&mut self, is_it: impl Fn(&Read) -> bool) -> Vec<Read> {
        let mut read = vec![self.read().await];
        while !read.last().is_some_and(&is_it) {
            read.push(self.read().await);
        }
        read
    }

    /// What comes until the other side has handled all that was sent.
    async fn settled(&mut self) -> Vec<Read> {
        self.send(&[frame(PING, 0, 0, &[7; 8])]).await;
        self.until(|read| read.kind == PING && read.flags == ACK)
            .await
    }
}

fn is_reset(read: &Read) -> bool {
    read.kind == RST_STREAM
}

fn ends(read: &Read) -> bool {
    matches!(read.kind, HEADERS | DATA) && read.flags & END_STREAM > 0
}

fn get(stream: u32, path: &str) -> Vec<u8> {
    let head = headers("GET", path, &[]);
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &head)
}

fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

/// One stream gets a byte at a time, another one enough, and only the first is given up.
#[tokio::test]
async fn an_answer_whose_window_opens_by_a_byte_is_given_up() {
    let upstream = Upstream::start(|_| async {
        let (mut sender, body) = body::channel();
        let part = "x".repeat(100_000);
        tokio::spawn(async move { while sender.send_data(part.clone().into()).await.is_ok() {} });
        Response::new(body)
    });
    let url = upstream.url();
    let gateway = TestGateway::start(&format!(
        "log: {{ access: false }}\n\
         timeouts: {{ slow: {{ rate: 1000B/s, after: 1500ms }} }}\n\
         routes: [{{ name: all, path: /**, upstream: \"{url}\" }}]"
    ))
    .await;
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let mut client = Wire::connect(gateway.address, &[0, 4, 0, 0, 0, 0]).await;
    let opened = window(0, 1 << 30);
    client.send(&[opened, get(1, "/"), get(3, "/")]).await;
    let (mut reader, mut writer) = client.0.into_split();
    let windows = tokio::spawn(async move {
        loop {
            let more = [window(1, 1), window(3, 4_000)].concat();
            if writer.write_all(&more).await.is_err() {
                return;
            }
            sleep(TICK).await;
        }
    });
    let from = Instant::now();
    let mut reset = None;
    let (mut dripped, mut flowed) = (0, 0);
    let mut head = [0; 9];
    // Long after the first is reset, the other goes on.
    while reset.is_none_or(|at: Instant| at.elapsed() < Duration::from_secs(1)) {
        timeout(LONG, reader.read_exact(&mut head))
            .await
            .unwrap()
            .unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        reader.read_exact(&mut payload).await.unwrap();
        match (head[3], head[8]) {
            (RST_STREAM, 1) => reset = Some(Instant::now()),
            (RST_STREAM, _) => panic!("the other stream is reset after {:?}", from.elapsed()),
            (DATA, 1) => dripped += length,
            (DATA, _) => flowed += length,
            _ => {}
        }
        assert!(from.elapsed() < LONG, "{dripped} bytes, and no reset");
    }
    assert!((1..2_000).contains(&dripped), "{dripped}");
    assert!(flowed > 10_000, "{flowed}");
    sample_becomes(
        gateway.admin,
        "tidegate_slow_clients_total{part=\"answer\"}",
        1,
    )
    .await;
    let slow = "tidegate_requests_total{route=\"all\",outcome=\"slow\",status=\"2xx\"}";
    sample_becomes(gateway.admin, slow, 1).await;
    windows.abort();
}

/// A gateway that answers early in all of its ways.
async fn answering(early: &RawUpstream, dead: &Upstream) -> TestGateway {
    let (early, dead) = (early.url(), dead.url());
    TestGateway::start(&format!(
        "
log: {{ access: false }}
clients:
  - api_key: {{ header: X-API-Key, keys: [{{ name: alpha, hash: sha256:{ALPHA} }}], unknown: reject }}
  - ip: {{}}
limits: {{ one: {{ fixed_window: {{ limit: 1, window: 31d }} }} }}
routes:
  - {{ path: /limited, upstream: \"{dead}\", limits: [one] }}
  - {{ path: /fetched, methods: [GET], upstream: \"{dead}\" }}
  - {{ path: /small, upstream: \"{early}\", max_body: 10 }}
  - {{ path: /secure, upstream: \"{dead}\", redirect: https }}
  - {{ path: /pages, upstream: \"{dead}\", cors: {{ origins: [\"https://a.example\"] }} }}
  - {{ path: /dead, upstream: \"{dead}\" }}
  - {{ path: /early, upstream: \"{early}\" }}
"
    ))
    .await
}

/// A stream that is reset at once after its answer makes some clients report an error in place of the answer.
#[tokio::test]
async fn a_small_body_is_read_to_its_end_after_any_early_answer() {
    let full = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nfull";
    let script = [Action::send(full), Action::Close];
    let early = RawUpstream::start(When::Head, move |_| script.to_vec());
    let dead = Upstream::ok();
    let gateway = answering(&early, &dead).await;
    Client::h2(gateway.address).get("/limited").await;
    dead.stop().await;
    let preflight = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
    ];
    let mut client = Wire::connect(gateway.address, &[]).await;
    let cases: [(&str, &str, Extra<'_>); 12] = [
        ("POST", "/limited", &[]),
        (
            "POST",
            "/limited",
            &[("content-type", "application/grpc"), ("te", "trailers")],
        ),
        ("POST", "/limited", &[("x-api-key", "guessed")]),
        ("POST", "/nothing", &[]),
        ("POST", "/a%zz", &[]),
        ("POST", "/fetched", &[]),
        ("POST", "/small", &[]),
        ("POST", "/small", &[("content-length", "200020")]),
        ("POST", "/secure", &[]),
        ("OPTIONS", "/pages", &preflight),
        ("POST", "/dead", &[]),
        ("POST", "/early", &[]),
    ];
    for (nth, case) in cases.into_iter().enumerate() {
        let (method, path, more) = case;
        let stream = u32::try_from(2 * nth + 1).unwrap();
        let head = headers(method, path, more);
        let head = frame(HEADERS, END_HEADERS, stream, &head);
        let part = frame(DATA, 0, stream, &[b'x'; 20]);
        client.send(&[head, part]).await;
        let answer = client.until(|read| ends(read) || is_reset(read)).await;
        assert!(
            answer.iter().all(|read| !is_reset(read)),
            "{case:?}: {answer:?}"
        );
        let later = client.settled().await;
        assert!(!later.iter().any(is_reset), "{case:?}: {later:?}");
        let rest = frame(DATA, 0, stream, &[b'x'; 10_000]);
        let last = frame(DATA, END_STREAM, stream, &[]);
        client.send(&[vec![rest; 20].concat(), last]).await;
        let later = client.settled().await;
        assert!(!later.iter().any(is_reset), "{case:?}: {later:?}");
    }
}

/// Nobody waits for the rest of a body for ever.
#[tokio::test]
async fn a_body_that_never_ends_is_reset_without_an_error() {
    let upstream = Upstream::ok();
    let gateway = answering(&RawUpstream::answering(""), &upstream).await;
    let mut client = Wire::connect(gateway.address, &[]).await;
    let head = headers("POST", "/nothing", &[]);
    client.send(&[frame(HEADERS, END_HEADERS, 1, &head)]).await;
    let read = client.until(is_reset).await;
    let reset = read.last().unwrap();
    assert_eq!(
        (reset.stream, &*reset.payload),
        (1, &NO_ERROR[..]),
        "{read:?}"
    );
    assert!(read.iter().any(ends), "{read:?}");
}

/// More than is read after an answer: the answer is there all the same.
#[tokio::test]
async fn a_refused_upload_learns_why() {
    let upstream = Upstream::ok();
    let gateway = answering(&RawUpstream::answering(""), &upstream).await;
    let client = Client::h2(gateway.address);
    client.get("/limited").await;
    let upload = body::full("x".repeat(20_000_000));
    let request = Request::post("/limited").body(upload).unwrap();
    assert_eq!(client.request(request).await.status, 429);
    assert_eq!(client.get("/limited").await.status, 429);
    assert_eq!(client.connections(), 1);
}

/// Its place at the upstream is free although its client takes nothing.
#[tokio::test]
async fn a_small_answer_leaves_its_place_before_its_client_takes_it() {
    for length in [true, false] {
        let upstream = Upstream::start(move |request| async move {
            if request.uri() == "/large" {
                return Response::new(body::full("x".repeat(1_000_000)));
            }
            if length {
                return Response::new(body::full("x".repeat(20_000)));
            }
            let (mut sender, body) = body::channel();
            tokio::spawn(async move {
                for _ in 0..4 {
                    sender.send_data("x".repeat(5_000).into()).await.unwrap();
                }
            });
            Response::new(body)
        });
        let url = upstream.url();
        let gateway = TestGateway::start(&format!(
            "log: {{ access: false }}\n\
             upstreams: {{ one: {{ servers: [\"{url}\"], max_connections: 1 }} }}\n\
             routes: [{{ path: /**, upstream: one }}]"
        ))
        .await;
        let small = || async { Client::new(gateway.address).get("/").await.status };
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        let mut client = Wire::connect(gateway.address, &[0, 4, 0, 0, 0, 0]).await;
        client.send(&[window(0, 1 << 30), get(1, "/")]).await;
        client.until(|read| read.kind == HEADERS).await;
        for _ in 0..3 {
            assert_eq!(small().await, 200);
        }
        client.send(&[window(1, 1 << 20)]).await;
        let read = client.until(ends).await;
        let data = read.iter().filter(|read| read.kind == DATA);
        let bytes: usize = data.map(|read| read.payload.len()).sum();
        assert_eq!(bytes, 20_000);
        // A large one has it until the client has taken nearly all.
        client.send(&[get(3, "/large")]).await;
        client.until(|read| read.kind == HEADERS).await;
        assert_eq!(small().await, 503);
        client.send(&[window(3, 1 << 20)]).await;
        client.until(ends).await;
        assert_eq!(small().await, 200);
    }
}
