//! A stop does not wait for clients that are silent, whatever they have begun. Requests in flight are answered.

use std::time::Duration;

use http::Response;
use tidegate_testkit::{RawClient, Upstream, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::bench::{
    ALL, BOTH, HTTP1, LONG, Papers, echoes, gateway, handshake, switch, tunnelling,
};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, SETTINGS, frame, headers,
};
use crate::support::TestGateway;
use crate::support::asking::answer_to;
use crate::support::held::{held, held_with};

const WHOLE: u8 = END_HEADERS | END_STREAM;
/// All that could end a silent connection is far away.
const PATIENT: &str = "timeouts: { header: 1h, idle: 1h, tunnel_idle: 1h, drain: none }";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

async fn patient(upstream: &Upstream) -> TestGateway {
    gateway(upstream.url(), &format!("{PATIENT}\n{ALL}")).await
}

/// The gateway stops though the client stays open. It has seen all that came before by now.
async fn stops<C>(gateway: TestGateway, client: C) {
    let (answer, _) =
        RawClient::exchange(gateway.address, "GET / HTTP/1.0\r\nHost: a\r\n\r\n", LONG).await;
    assert!(answer.starts_with(b"HTTP/1."), "{answer:?}");
    let stopped = timeout(LONG, gateway.stop()).await;
    assert!(stopped.is_ok(), "it waits for a client that is silent");
    drop(client);
}

/// A client of HTTP/2 that answers nothing: no settings, and no ping.
struct Silent(TcpStream);

impl Silent {
    async fn connect(gateway: &TestGateway, frames: &[Vec<u8>]) -> Self {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        stream.write_all(&hello).await.unwrap();
        stream.write_all(&frames.concat()).await.unwrap();
        Self(stream)
    }

    async fn send(&mut self, frames: &[Vec<u8>]) {
        self.0.write_all(&frames.concat()).await.unwrap();
    }

    /// The payload of the next frame of this kind; of none if the gateway closes before.
    async fn next(&mut self, kind: u8) -> Option<Vec<u8>> {
        let reading = async {
            loop {
                let mut head = [0; 9];
                self.0.read_exact(&mut head).await.ok()?;
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                self.0.read_exact(&mut payload).await.ok()?;
                if head[3] == kind {
                    return Some(payload);
                }
            }
        };
        timeout(LONG, reading).await.unwrap()
    }
}

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, &headers("GET", "/", &[]))
}

#[tokio::test]
async fn clients_of_http_2_that_say_nothing_more() {
    let half_frame = frame(PING, 0, 0, &[0; 8])[..12].to_vec();
    let half_head = frame(HEADERS, END_STREAM, 1, &headers("GET", "/", &[]));
    for (frames, answered) in [
        (vec![], false),
        (vec![half_frame], false),
        (vec![half_head], false),
        // It acknowledges nothing.
        (vec![get(1)], true),
    ] {
        let upstream = Upstream::ok();
        let gateway = patient(&upstream).await;
        let mut client = Silent::connect(&gateway, &frames).await;
        if answered {
            client.next(DATA).await.unwrap();
        }
        stops(gateway, client).await;
    }
}

/// Halves of a preface of HTTP/2, and of heads. An answered client does not close its side either.
#[tokio::test]
async fn clients_of_http_1_that_say_nothing_more() {
    for (asked, rest) in [
        (0, &PREFACE[..20]),
        (0, &GET.as_bytes()[..20]),
        (1, &GET.as_bytes()[..20]),
        (1, b""),
    ] {
        let upstream = Upstream::ok();
        let gateway = patient(&upstream).await;
        let mut client = RawClient::connect(gateway.address).await;
        for _ in 0..asked {
            assert_eq!(answer_to(&mut client, GET).await.status(), 200);
        }
        client.send(rest).await.unwrap();
        stops(gateway, client).await;
    }
}

#[tokio::test]
async fn tls_without_a_request() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    for protocols in [&HTTP1[..], &BOTH] {
        let yaml = format!("{PATIENT}\n{ALL}");
        let gateway = papers.gateway(upstream.url(), "", &yaml).await;
        let config = papers.authority.client(protocols);
        let client = handshake(gateway.address, config, "localhost")
            .await
            .unwrap();
        // Half of a handshake.
        let mut half = TcpStream::connect(gateway.address).await.unwrap();
        half.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        assert_eq!(papers.http1(&gateway).get("/").await.status, 200);
        let stopped = timeout(LONG, gateway.stop()).await;
        assert!(stopped.is_ok(), "it waits for {protocols:?}");
        drop((client, half));
    }
}

#[tokio::test]
async fn a_tunnel_in_which_nothing_moves() {
    let upstream = tunnelling(tidegate_testkit::Speaks::Http1);
    let yaml =
        format!("{PATIENT}\nroutes: [{{ path: /**, upstream: UPSTREAM, upgrade: [websocket] }}]");
    let gateway = gateway(upstream.url(), &yaml).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    echoes(&mut client, "words").await;
    let stopped = timeout(LONG, gateway.stop()).await;
    assert!(stopped.is_ok(), "it waits for the tunnel");
}

#[tokio::test]
async fn a_stream_of_the_admin_port() {
    let upstream = Upstream::ok();
    let gateway = patient(&upstream).await;
    let mut client = RawClient::connect(gateway.admin).await;
    client
        .send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    stops(gateway, client).await;
}

/// The last stream that a GOAWAY frame names.
fn last(goaway: &[u8]) -> u32 {
    u32::from_be_bytes(goaway[..4].try_into().unwrap())
}

/// Its client reads no more than the first window of the answer before it is told that the connection ends.
#[tokio::test]
async fn a_request_in_flight_is_answered_though_nothing_is_acknowledged() {
    let large = |_: &_| Response::new(body::full(vec![b'x'; 100_000]));
    let (upstream, release) = held_with(large);
    let gateway = patient(&upstream).await;
    let mut client = Silent::connect(&gateway, &[get(1)]).await;
    upstream.wait_for(1, LONG).await;
    let stopping = tokio::spawn(gateway.stop());
    assert_eq!(last(&client.next(GOAWAY).await.unwrap()), u32::MAX >> 1);
    // The client has not acknowledged the ping of the first.
    assert_eq!(last(&client.next(GOAWAY).await.unwrap()), 1);
    client.send(&[get(3)]).await;
    release.send(true).unwrap();
    let mut read = 0;
    while read < 65_535 {
        read += client.next(DATA).await.unwrap().len();
    }
    let window = |stream: u32| frame(8, 0, stream, &100_000_u32.to_be_bytes());
    client.send(&[window(0), window(1)]).await;
    while read < 100_000 {
        read += client.next(DATA).await.unwrap().len();
    }
    assert_eq!(client.next(HEADERS).await, None);
    timeout(LONG, stopping).await.unwrap().unwrap();
    assert_eq!(upstream.count(), 1);
}

/// The bound holds for what never ends.
#[tokio::test]
async fn a_drain_has_its_end() {
    let (upstream, _release) = held();
    let yaml = format!("timeouts: {{ drain: 1s }}\n{ALL}");
    let gateway = gateway(upstream.url(), &yaml).await;
    let mut client = RawClient::connect(gateway.address).await;
    client.send(GET).await.unwrap();
    upstream.wait_for(1, LONG).await;
    let stopped = timeout(Duration::from_secs(20), gateway.stop()).await;
    assert!(stopped.is_ok(), "it takes longer than the drain");
}
