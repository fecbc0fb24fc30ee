//! The stream of events of the status page, and what happens to the gateway, as its document tells it.

use std::net::{Ipv4Addr, SocketAddr};

use http::Method;
use tidegate_status::document::Status;
use tidegate_testkit::{RawClient, RedisServer, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kit::{Bench, LONG, answer_to, page, send, until};
use crate::status::{USERS, browser, when};
use crate::support::TestGateway;

/// An open stream, of which nothing was read.
async fn stream(admin: SocketAddr) -> TcpStream {
    stream_with(admin, "").await
}

/// The same, with more lines in the head of its request.
async fn stream_with(admin: SocketAddr, lines: &str) -> TcpStream {
    let mut socket = TcpStream::connect(admin).await.unwrap();
    let head = format!("GET /events HTTP/1.1\r\nhost: {admin}\r\n{lines}\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

/// What is answered to a request for a stream from this address.
async fn asked_from(from: u8, admin: SocketAddr) -> String {
    let mut socket = RawClient::connect_from(Ipv4Addr::new(127, 0, 1, from), admin).await;
    let head = format!("GET /events HTTP/1.1\r\nhost: {admin}\r\n\r\n");
    let answer = answer_to(&mut socket, head).await;
    assert_eq!(answer.status(), 503);
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// Reads until this has come.
async fn read_until(socket: &mut TcpStream, text: &str) -> String {
    let mut read = String::new();
    let reading = async {
        let mut part = vec![0; 65_536];
        while !read.contains(text) {
            let length = socket.read(&mut part).await.unwrap();
            assert!(length > 0, "the stream ended: {read}");
            read.push_str(&String::from_utf8_lossy(&part[..length]));
        }
    };
    tokio::time::timeout(LONG, reading).await.unwrap();
    read
}

#[tokio::test]
async fn sixteen_streams_tell_of_each_second() {
    let bench = Bench::start(USERS).await;
    let admin = bench.gateway.admin;
    let mut streams = Vec::new();
    for _ in 0..16 {
        let mut stream = stream(admin).await;
        let head = read_until(&mut stream, "data: {").await;
        assert!(head.contains("text/event-stream"), "{head}");
        assert!(!head.contains("\"series\""), "{head}");
        streams.push(stream);
    }
    // Neither the address of the others nor another one gets a seventeenth.
    let mut last = stream(admin).await;
    let answer = read_until(&mut last, "too_many_streams").await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(asked_from(9, admin).await.contains("too_many_streams"));
    // What else that address asks ends no stream.
    for _ in 0..40 {
        assert_eq!(page(admin, "/healthz").await.0, 200);
    }
    for stream in &mut streams {
        read_until(stream, "data: {").await;
    }
    drop((streams, last));
    until("their places are free again", async || {
        let mut stream = stream(admin).await;
        read_until(&mut stream, "\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 200")
    })
    .await;
    bench.stop().await;
}

#[tokio::test]
async fn a_reader_that_stops_reading_is_ended() {
    // With so many routes, each event is larger than what the system keeps for a reader.
    let mut yaml = USERS.to_owned();
    for n in 0..2_000 {
        let route = "{ name: NAME, path: /PATH, upstream: UPSTREAM }";
        let route = route.replace("NAME", &format!("a-route-with-a-long-name-{n}"));
        let route = route.replace("PATH", &format!("a/path/{n}"));
        yaml = yaml.replace("\nroutes:", &format!("\nroutes:\n  - {route}"));
    }
    let bench = Bench::start(&yaml).await;
    let admin = bench.gateway.admin;
    let mut silent = stream(admin).await;
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..15 {
        let mut stream = stream(admin).await;
        read_until(&mut stream, "data: {").await;
        readers.spawn(async move { tokio::io::copy(&mut stream, &mut tokio::io::sink()).await });
    }
    assert!(asked_from(9, admin).await.contains("too_many_streams"));
    until("its place is free", async || {
        let mut stream = stream(admin).await;
        let answer = read_until(&mut stream, "\r\n\r\n").await;
        answer.starts_with("HTTP/1.1 200")
    })
    .await;
    // The end of the answer, as the protocol has it.
    read_until(&mut silent, "\r\n0\r\n\r\n").await;
    assert_eq!(readers.len(), 15);
    assert!(readers.try_join_next().is_none(), "the others go on");
    readers.shutdown().await;
    bench.stop().await;
}

#[tokio::test]
async fn the_cookie_of_the_page_opens_the_stream() {
    let upstream = Upstream::ok();
    let yaml = USERS.replace("UPSTREAM", &upstream.url());
    let admin = "{ address: \"127.0.0.1:0\", token: \"a:b\" }";
    let gateway = TestGateway::start_with_admin(admin, &yaml).await;
    let admin = gateway.admin;
    // any:a:b
    let password = [("authorization", "Basic YW55OmE6Yg==")];
    let document = send(&browser(admin), Method::GET, "/", &password).await;
    let cookie = document.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let mut stream = stream_with(admin, &format!("cookie: {cookie}\r\n")).await;
    let head = read_until(&mut stream, "data: {").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    // One whose time was changed, and one of a page elsewhere.
    let (name, value) = cookie.split_once('=').unwrap();
    let later = value.replacen(".", ".9", 1);
    for (line, error) in [
        (format!("cookie: {name}={later}"), "admin_token_needed"),
        (
            format!("cookie: {cookie}\r\norigin: http://127.0.0.1:1"),
            "foreign_host",
        ),
        (
            format!("cookie: {cookie}\r\nsec-fetch-site: same-site"),
            "foreign_host",
        ),
    ] {
        let mut refused = stream_with(admin, &format!("{line}\r\n")).await;
        let answer = read_until(&mut refused, error).await;
        assert!(answer.starts_with("HTTP/1.1 40"), "{line}: {answer}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn reloads_redis_and_servers_are_events() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = format!(
        "store: {{ redis: {{ url: \"{}\", timeout: 5s }} }}\n{}",
        redis.url(),
        USERS.replace("UPSTREAM", &upstream.url())
    );
    let gateway = TestGateway::start(&yaml).await;
    let has = |kind: &'static str, text: &'static str| {
        move |status: &Status| {
            let mut events = status.events.iter();
            events.any(|event| event.kind == kind && event.text.contains(text))
        }
    };
    let seen = when(gateway.admin, "it is healthy", |it| {
        it.health.reasons.is_empty()
    })
    .await;
    assert_eq!(seen.store.kind, "redis");
    when(gateway.admin, "Redis says how it is", |it| {
        let node = it.store.redis.iter().flat_map(|redis| &redis.nodes).next();
        node.is_some_and(|node| node.uptime_seconds.is_some() && node.sent_bytes > Some(0))
    })
    .await;
    gateway.reload(&format!("{yaml}\n# changed")).await;
    when(
        gateway.admin,
        "a reload is told of",
        has("reload", "was taken"),
    )
    .await;
    let refused = gateway.reload_listening("127.0.0.1:0", "limits: 7").await;
    assert!(refused.is_err());
    let seen = when(
        gateway.admin,
        "a refused one is, too",
        has("reload_refused", "refused"),
    )
    .await;
    assert_eq!(seen.health.reasons.len(), 1, "{:?}", seen.health);
    drop(redis);
    let seen = when(
        gateway.admin,
        "Redis is gone",
        has("redis", "cannot be reached"),
    )
    .await;
    assert!(
        seen.health.reasons[0].contains("Redis"),
        "{:?}",
        seen.health
    );
    assert!(!seen.store.redis.unwrap().is_up);
    gateway.stop().await;
}
