//! The stream of events of the status page, and what happens to the gateway, as its document tells it.

use std::net::SocketAddr;

use tidegate_status::document::Status;
use tidegate_testkit::{RedisServer, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::kit::{Bench, LONG, until};
use crate::status::{USERS, when};
use crate::support::TestGateway;

/// An open stream, of which nothing was read.
async fn stream(admin: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(admin).await.unwrap();
    let head = format!("GET /events HTTP/1.1\r\nhost: {admin}\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
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
    // Connections of one address are bounded, too, and the one that was quiet for longest gives way.
    let mut last = stream(admin).await;
    let answer = read_until(&mut last, "\r\n\r\n").await;
    let is_bounded = answer.starts_with("HTTP/1.1 503") || answer.starts_with("HTTP/1.1 200");
    assert!(is_bounded, "{answer}");
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
