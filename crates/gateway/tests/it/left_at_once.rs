//! Clients that have left before the gateway begins with their request: it is counted and logged, and nothing else.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tidegate_testkit::Upstream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use crate::access_log::lines;
use crate::kit::{LONG, left, on_both_stores, page, sample, until};
use crate::support::{GatewayProcess, TestGateway};

/// How many requests one connection carries.
const STREAMS: u32 = 3;

/// One head of HTTP/1.
fn http1(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").into()
}

/// What a client of HTTP/2 says first.
fn preface() -> Vec<u8> {
    const SETTINGS: u8 = 4;
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        &frame(SETTINGS, 0, 0, b"")[..],
    ]
    .concat()
}

/// One head of HTTP/2, which is the whole request.
fn head(path: &str, stream: u32) -> Vec<u8> {
    const HEADERS: u8 = 1;
    const END_STREAM_AND_HEADERS: u8 = 5;
    // :method GET, :scheme http, and as literals :authority a and :path.
    let path = [&[0x44, u8::try_from(path.len()).unwrap()], path.as_bytes()].concat();
    let fields = [b"\x82\x86\x41\x01a", &path[..]].concat();
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, &fields)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [
        &[0, 0, length, kind, flags],
        &stream.to_be_bytes()[..],
        payload,
    ]
    .concat()
}

/// Several heads on one connection of HTTP/2.
fn http2(path: &str) -> Vec<u8> {
    let heads = (0..STREAMS).map(|nth| head(path, 2 * nth + 1));
    [preface(), heads.collect::<Vec<_>>().concat()].concat()
}

/// Sends this on a connection of its own and closes it. Nothing else in this thread runs meanwhile.
fn send_and_leave(gateway: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(gateway).unwrap();
    stream.write_all(bytes).unwrap();
    leave(gateway, stream);
}

/// Closes a connection, and waits until the gateway's socket has the end. On a busy machine the end comes later than `close` returns.
fn leave(gateway: SocketAddr, stream: TcpStream) {
    const OPEN: [&str; 2] = ["01", "03"]; // ESTABLISHED, SYN_RECV
    let own = stream.local_addr().unwrap();
    drop(stream);
    let ports = [gateway, own].map(|it| format!(":{:04X}", it.port()));
    let is_open = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let is_it = ports
            .iter()
            .all(|port| words.next().is_some_and(|word| word.ends_with(port)));
        is_it && words.next().is_some_and(|state| OPEN.contains(&state))
    };
    let deadline = Instant::now() + LONG;
    while std::fs::read_to_string("/proc/net/tcp")
        .unwrap()
        .lines()
        .any(is_open)
    {
        assert!(Instant::now() < deadline, "the end does not arrive");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The sample that counts requests of a route without an answer.
fn abandoned(route: &str) -> String {
    format!("tidegate_requests_total{{route=\"{route}\",outcome=\"abandoned\",status=\"none\"}}")
}

/// Has one request answered, then sends another head and closes the connection, as [`send_and_leave`].
async fn ask_and_leave(gateway: SocketAddr, path: &str) {
    let mut stream = tokio::net::TcpStream::connect(gateway).await.unwrap();
    stream.write_all(&http1("/here")).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"ok\":true}") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "no answer");
    }
    let mut stream = stream.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    Write::write_all(&mut stream, &http1(path)).unwrap();
    leave(gateway, stream);
}

/// The test and its gateway are one thread: the gateway reads each head and the end behind it at once.
#[tokio::test]
async fn nothing_is_forwarded_or_charged_but_all_is_counted() {
    const CLIENTS: u32 = 20;
    on_both_stores(async |store| {
        let upstream = Upstream::ok();
        let url = upstream.url();
        let window = "fixed_window: { limit: 100, window: 31d }";
        let gateway = TestGateway::start(&format!(
            "{store}limits: {{ own: {{ {window} }}, all: {{ {window}, per: [ip] }} }}\nalways: [all]\n\
             routes: [{{ name: here, path: /here, upstream: \"{url}\", limits: [own] }}]\n"
        ))
        .await;
        for _ in 0..CLIENTS {
            for path in ["/here", "/elsewhere"] {
                ask_and_leave(gateway.address, path).await;
                send_and_leave(gateway.address, &http2(path));
            }
        }
        for route in ["here", "none"] {
            until("all are counted", async || {
                let sent = u64::from(CLIENTS + CLIENTS * STREAMS);
                sample(gateway.admin, &abandoned(route)).await == sent
            })
            .await;
        }
        // What was answered is all that there was.
        assert_eq!(upstream.count(), 2 * CLIENTS as usize);
        assert_eq!(left(gateway.admin).await, u64::from(100 - 2 * CLIENTS));
        gateway.stop().await;
    })
    .await;
}

/// Some of these leave before the gateway begins with their request, and some after it.
#[tokio::test]
async fn each_has_a_line_in_the_access_log() {
    const CLIENTS: u32 = 100;
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "routes: [{{ name: here, path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    ))
    .await;
    for _ in 0..CLIENTS {
        send_and_leave(gateway.address, &http1("/x"));
        send_and_leave(gateway.address, &http2("/x"));
    }
    let sent = CLIENTS + CLIENTS * STREAMS;
    let lines = lines(&gateway, sent as usize).await;
    assert!(
        lines
            .iter()
            .all(|line| line["route"] == "here" && line["path"] == "/x"),
        "{lines:#?}"
    );
    let counted = async |outcome| {
        let labels = format!("route=\"here\",outcome=\"{outcome}\"");
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        let counts = metrics
            .lines()
            .filter(|line| line.starts_with("tidegate_requests_total") && line.contains(&labels));
        counts
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u32>().ok())
            .sum::<u32>()
    };
    let (gone, answered) = (counted("abandoned").await, counted("forwarded").await);
    eprintln!("{gone} abandoned, {answered} forwarded");
    assert_eq!((gone + answered, lines.len()), (sent, sent as usize));
}

/// What a gateway that is short of memory would have refused is abandoned as well.
#[tokio::test]
async fn nothing_is_shed_for_whoever_has_left() {
    let (_release, released) = watch::channel(false);
    let upstream = Upstream::start(move |_| {
        let mut released = released.clone();
        async move {
            _ = released.wait_for(|released| *released).await;
            http::Response::default()
        }
    });
    let routes = format!(
        "routes: [{{ name: here, path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    );
    let gateway = TestGateway::start(&routes).await;
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream
        .write_all(&[preface(), head("/held", 1)].concat())
        .unwrap();
    upstream.wait_for(1, LONG).await;
    let ballast = vec![1_u8; 128 << 20];
    gateway.reload(&format!("max_memory: 64MB\n{routes}")).await;
    until("memory is short", async || {
        sample(gateway.admin, "tidegate_memory_pressure").await == 2
    })
    .await;
    stream.write_all(&head("/late", 3)).unwrap();
    drop(stream);
    until("both are counted", async || {
        sample(gateway.admin, &abandoned("here")).await == 1
            && sample(gateway.admin, &abandoned("none")).await == 1
    })
    .await;
    drop(ballast);
    gateway.stop().await;
}
