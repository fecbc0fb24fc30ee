//! How tunnels end: by either side, by silence, by a stop; and what they hold until then.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tidegate_testkit::{Client, Process, Speaks, Upstream, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::bench::{LONG, echoes, gateway, sample, sample_becomes, switch, tunnelling};
use crate::support::GatewayProcess;

const TUNNELS: &str = "routes: [{ name: ws, path: /**, upstream: UPSTREAM, upgrade: [websocket] }]";
const OPEN: &str = "tidegate_tunnels{route=\"ws\"}";

/// The other side closes in an orderly way, and says nothing before.
async fn closes(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut rest)).await;
    assert!(
        matches!(read, Ok(Ok(_))),
        "it is reset, or stays open: {read:?}"
    );
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_side_that_closes_is_answered_to_the_end() {
    let upstream = tunnelling(Speaks::Http1);
    let gateway = gateway(upstream.url(), TUNNELS).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    client.write_all(b"last words").await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = String::new();
    let read = timeout(LONG, client.read_to_string(&mut heard)).await;
    read.unwrap().unwrap();
    assert_eq!(heard, "last words");
    sample_becomes(gateway.admin, OPEN, 0).await;
}

/// An upstream that has said all may still be listening, however slowly.
#[tokio::test]
async fn an_upstream_that_closes_first_hears_all_that_comes_after() {
    const MUCH: usize = 16 << 20;
    let (heard, mut hears) = mpsc::channel(1);
    let listens = Arc::new(Notify::new());
    let begins = listens.clone();
    let upstream = Upstream::start(move |mut request: Request<_>| {
        let (heard, begins) = (heard.clone(), begins.clone());
        async move {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgraded.await.unwrap());
                stream.shutdown().await.unwrap();
                begins.notified().await;
                let mut words = Vec::new();
                stream.read_to_end(&mut words).await.unwrap();
                heard.send(words.len()).await.unwrap();
            });
            let answer = Response::builder().status(101);
            let answer = answer.header("connection", "upgrade");
            let answer = answer.header("upgrade", "websocket");
            answer.body(body::empty()).unwrap()
        }
    });
    let gateway = gateway(upstream.url(), TUNNELS).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    closes(&mut client).await;
    let much = vec![b'x'; MUCH];
    let mut saying = std::pin::pin!(client.write_all(&much));
    // Nobody takes so much while nobody listens.
    let said = timeout(Duration::from_millis(500), saying.as_mut()).await;
    assert!(said.is_err(), "somebody takes it");
    listens.notify_one();
    timeout(LONG, saying).await.unwrap().unwrap();
    drop(client);
    let words = timeout(LONG, hears.recv()).await.unwrap();
    assert_eq!(words, Some(MUCH));
}

#[tokio::test]
async fn silence_ends_a_tunnel_and_an_open_one_holds_a_place() {
    let upstream = tunnelling(Speaks::Http1);
    let yaml = format!("timeouts: {{ tunnel_idle: 1s }}\nmax_connections: 1\n{TUNNELS}");
    let gateway = gateway(upstream.url(), &yaml).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    echoes(&mut client, "words").await;
    let request = Request::get("/").body(body::empty());
    let other = Client::fresh(gateway.address)
        .try_request(request.unwrap())
        .await;
    // The refusal may come before the request, which this client does not take for an answer.
    let status = other.map_or(503, |answer| answer.status.as_u16());
    assert_eq!(status, 503, "there is a second place");
    let refused = "tidegate_connections_refused_total{reason=\"max_connections\"}";
    assert_eq!(sample(gateway.admin, refused).await, 1);
    closes(&mut client).await;
    drop(client);
    sample_becomes(gateway.admin, OPEN, 0).await;
    let mut next = TcpStream::connect(gateway.address).await.unwrap();
    let head = switch(&mut next, "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
}

#[tokio::test]
async fn an_upstream_that_is_gone_takes_its_clients_along() {
    let upstream = tunnelling(Speaks::Http1);
    let gateway = gateway(upstream.url(), TUNNELS).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    echoes(&mut client, "words").await;
    upstream.stop().await;
    // The tunnel's other end lives in the upstream's own task, which ends with the client's words.
    client.shutdown().await.unwrap();
    closes(&mut client).await;
    sample_becomes(gateway.admin, OPEN, 0).await;
}

/// Opens this many tunnels through so many gateways, stops all of these, and sees each tunnel closed.
async fn held_through_a_stop(url: &str, number: usize, gateways: usize) {
    let yaml = TUNNELS.replace("UPSTREAM", &format!("\"{url}\""));
    let yaml = format!("max_connections: 20000\n{yaml}\n");
    let mut running = Vec::new();
    for _ in 0..gateways {
        running.push(GatewayProcess::start(&yaml).await);
    }
    let mut opening = JoinSet::new();
    let mut tunnels = Vec::new();
    for n in 0..number {
        opening.spawn(opened(running[n % gateways].address));
        if n % 100 == 99 {
            while let Some(opened) = opening.join_next().await {
                tunnels.push(opened.unwrap());
            }
        }
    }
    tunnels.extend(opening.join_all().await);
    assert_eq!(tunnels.len(), number);
    let share = number / gateways;
    for gateway in &running {
        let page = Client::fresh(gateway.admin).get("/metrics").await;
        let page = page.text();
        assert!(page.contains(&format!("{OPEN} {share}\n")), "{page}");
    }
    for gateway in &mut running {
        gateway.process.signal("TERM");
    }
    for stream in &mut tunnels {
        closes(stream).await;
    }
    drop(tunnels);
    for mut gateway in running {
        assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
        let output = gateway.process.output().join("\n");
        assert!(
            !output.contains("deadline"),
            "{}",
            &output[output.len().saturating_sub(2_000)..]
        );
        let lines = output.matches("\"status\":101").count();
        assert_eq!(lines, share, "each tunnel has its line");
    }
}

/// A tunnel through which words have passed.
async fn opened(address: SocketAddr) -> TcpStream {
    // The queue of connections that are not accepted yet is short.
    let mut stream = loop {
        match TcpStream::connect(address).await {
            Ok(stream) => break stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
            Err(error) => panic!("{error}"),
        }
    };
    switch(&mut stream, "").await;
    echoes(&mut stream, "words").await;
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_closes_every_tunnel_in_a_pause() {
    let upstream = tunnelling(Speaks::Http1);
    held_through_a_stop(&upstream.url(), 200, 2).await;
}

/// A gateway needs two descriptors for a tunnel, this process one, and the upstream, which is a process of its own, one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: cargo test -p tidegate --test edge -- --ignored --nocapture ten_thousand"]
async fn ten_thousand_tunnels_are_closed_before_the_deadline() {
    const NUMBER: usize = 10_000;
    const OTHERS: usize = 500;
    let may_have = descriptors();
    let gateways = match may_have {
        _ if may_have >= 2 * NUMBER + OTHERS => 1,
        _ if may_have >= NUMBER + OTHERS => 2,
        _ => panic!("this needs 10,500 descriptors (ulimit -n), and there are {may_have}"),
    };
    let mut upstream = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/edge/tunnelling.py");
    upstream.arg(script);
    let upstream = Process::spawn(upstream);
    let line = upstream.wait_for_line("port ", LONG).await;
    let port = line.strip_prefix("port ").unwrap();
    let began = Instant::now();
    held_through_a_stop(&format!("http://127.0.0.1:{port}"), NUMBER, gateways).await;
    eprintln!(
        "{NUMBER} tunnels through {gateways} gateway(s), as a process may have {may_have} descriptors: \
         each was closed properly; {:?} in all",
        began.elapsed()
    );
}

/// How many files a process that this one starts may have open.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let most = line.unwrap().split_whitespace().next().unwrap();
    most.parse().unwrap_or(usize::MAX)
}

/// A tunnel that is never silent goes on while the gateway drains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_still_pass_while_the_gateway_stops() {
    let upstream = tunnelling(Speaks::Http1);
    let url = upstream.url();
    let yaml = TUNNELS.replace("UPSTREAM", &format!("\"{url}\""));
    let mut gateway = GatewayProcess::start(&yaml).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    gateway.process.signal("TERM");
    let admin = Client::fresh(gateway.admin);
    while admin.get("/readyz").await.status != StatusCode::SERVICE_UNAVAILABLE {}
    for _ in 0..10 {
        echoes(&mut client, "more").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    closes(&mut client).await;
    drop(client);
    assert_eq!(gateway.process.wait(LONG).await.code(), Some(0));
}
