//! A flood of requests that are all refused: Redis hears of it once a second, from each gateway.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_testkit::{Client, RedisServer, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::rig::{info, seconds};
use crate::support::GatewayProcess;

/// Requests a second, over so many connections to each gateway.
const RATE: u32 = 10_000;
const CONNECTIONS: u32 = 4;
const LONG: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_millis(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; see docs/when-redis-fails.md"]
async fn ten_thousand_refused_requests_a_second_on_one_key() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = format!(
        "
store: {{ redis: {{ url: \"{}\", timeout: 5s, on_failure: closed }} }}
secret: the same for both
limits:
  it: {{ fixed_window: {{ limit: 5, window: 31d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [it] }}
",
        redis.url(),
        upstream.url()
    );
    let log = "level: info, access: false";
    let mut gateways = Vec::new();
    for _ in 0..2 {
        gateways.push(GatewayProcess::start_with("127.0.0.1:0", log, &yaml).await);
    }
    let count = gateways.len() as u32;
    // Many who come at once, before a gateway has heard of a refusal, are all asked about.
    for gateway in &gateways {
        let client = Client::new(gateway.address);
        while client.get("/").await.status != 429 {}
    }
    seconds(1).await;
    let asked = "cmdstat_evalsha:calls=";
    let before = info(&redis, "commandstats", asked).await;
    let began = Instant::now();
    let mut connections = JoinSet::new();
    for gateway in &gateways {
        for _ in 0..CONNECTIONS {
            connections.spawn(flood(gateway.address, RATE / count / CONNECTIONS));
        }
    }
    let refused: u64 = connections.join_all().await.iter().sum();
    let took = began.elapsed();
    let calls = info(&redis, "commandstats", asked).await - before;
    eprintln!(
        "flood: {refused} refused in {took:?}, {:.0} a second at {count} gateways; {calls} questions to Redis",
        refused as f64 / took.as_secs_f64()
    );
    assert_eq!(upstream.count(), 5);
    assert!(refused > 10_000, "{refused}");
    let most = u64::from(count) * (took.as_secs() + 1);
    assert!((1..=most).contains(&calls), "{calls}, where {most} may be");
}

/// Sends so many requests a second, many in one piece, without waiting for answers; how many were refused.
async fn flood(gateway: SocketAddr, rate: u32) -> u64 {
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const LAST: &str = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let batch = REQUEST.repeat((rate * EVERY.as_millis() as u32 / 1_000) as usize);
    let (mut reader, mut writer) = TcpStream::connect(gateway).await.unwrap().into_split();
    let sending = async {
        let mut every = tokio::time::interval(EVERY);
        let began = Instant::now();
        while began.elapsed() < LONG {
            every.tick().await;
            // A busy gateway reads no more, which slows its client down.
            writer.write_all(batch.as_bytes()).await.unwrap();
        }
        writer.write_all(LAST.as_bytes()).await.unwrap();
    };
    let mut answers = String::new();
    let (_, read) = tokio::join!(sending, reader.read_to_string(&mut answers));
    read.unwrap();
    answers.matches("HTTP/1.1 429 ").count() as u64
}
