//! Clients on slow lines, and clients that pause. Bytes that wait in buffers are not taken yet, and the client that takes them
//! steadily is not slow.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response};
use tidegate_testkit::{Client, Speaks, Upstream, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::lab::gateway;
use crate::least_rate::{counted, metric, narrow};
use crate::support::TestGateway;

const TICK: Duration = Duration::from_millis(20);
const LEAST: &str = "
timeouts: { slow: { rate: 1000B/s, after: 400ms } }
routes: [{ name: all, path: /**, upstream: UPSTREAM }]";

/// A line to a gateway.
#[derive(Clone, Copy)]
struct Line {
    /// The bytes per second that it carries to the client.
    rate: usize,
    /// How long it carries nothing after the first bytes.
    pause: Duration,
}

impl Line {
    /// Returns the address of its client's end.
    async fn to(self, gateway: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(self.carry(client, narrow(gateway).await));
            }
        });
        address
    }

    async fn carry(self, mut client: TcpStream, mut gateway: TcpStream) {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_gateway, mut to_gateway) = gateway.split();
        let back = async {
            let mut part = vec![0; self.rate / 50];
            let mut pause = self.pause;
            while let Ok(read @ 1..) = from_gateway.read(&mut part).await {
                if to_client.write_all(&part[..read]).await.is_err() {
                    break;
                }
                sleep(TICK + std::mem::take(&mut pause)).await;
            }
        };
        tokio::select! {
            () = back => {}
            _ = copy(&mut from_client, &mut to_gateway) => {}
        }
    }
}

/// An upstream that answers with so many bytes.
fn large(bytes: usize) -> Upstream {
    Upstream::start(move |_| async move { Response::new(body::full("x".repeat(bytes))) })
}

/// Downloads over a line of its own, by HTTP/1 and HTTP/2 at once.
async fn downloads(gateway: &TestGateway, line: Line, bytes: usize) {
    let mut running = JoinSet::new();
    for client in [Client::new, Client::h2] {
        let address = gateway.address;
        running.spawn(async move {
            let answer = client(line.to(address).await).get("/").await;
            assert_eq!((answer.status.as_u16(), answer.body.len()), (200, bytes));
        });
    }
    running.join_all().await;
    assert_eq!(metric(gateway, "tidegate_slow_clients_total").await, 0);
}

/// The system takes more of an answer in steps that take such a client longer than it may be behind.
#[tokio::test]
async fn a_steady_download_on_a_slow_line_is_served() {
    let bytes = 300_000;
    let upstream = large(bytes);
    let gateway = gateway(upstream.url(), LEAST).await;
    let line = Line {
        rate: 60_000,
        pause: Duration::ZERO,
    };
    downloads(&gateway, line, bytes).await;
}

#[tokio::test]
async fn without_a_least_rate_a_client_may_pause() {
    let bytes = 800_000;
    let upstream = large(bytes);
    let yaml = format!(
        "timeouts: {{ idle: 300ms, slow: none }}\n{}",
        crate::lab::ALL
    );
    let gateway = gateway(upstream.url(), &yaml).await;
    let line = Line {
        rate: 2_000_000,
        pause: Duration::from_secs(2),
    };
    downloads(&gateway, line, bytes).await;
}

/// All answers are in buffers at once, and their requests over. The connection is not idle until the client has them.
#[tokio::test]
async fn many_answers_on_a_slow_line_all_arrive() {
    let upstream = large(60_000);
    let yaml = LEAST.replace("timeouts: {", "timeouts: { idle: 500ms,");
    let gateway = gateway(upstream.url(), &yaml).await;
    let line = Line {
        rate: 100_000,
        pause: Duration::ZERO,
    };
    let client = std::sync::Arc::new(Client::h2(line.to(gateway.address).await));
    let mut running = JoinSet::new();
    for _ in 0..6 {
        let client = client.clone();
        running.spawn(async move { client.get("/").await.body.len() });
    }
    assert_eq!(running.join_all().await, [60_000; 6]);
    assert_eq!(client.connections(), 1);
}

/// A socket that is closed while its client still sends is reset, and the bytes on their way are lost.
#[tokio::test]
async fn the_end_of_the_last_answer_arrives_though_the_client_sends_on() {
    let bytes = 160_000;
    let upstream = large(bytes);
    let gateway = gateway(upstream.url(), LEAST).await;
    let mut client = narrow(gateway.address).await;
    let (mut reader, mut writer) = client.split();
    let get = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    writer.write_all(get).await.unwrap();
    let sending = async {
        while writer.write_all(b".").await.is_ok() {
            sleep(5 * TICK).await;
        }
    };
    let reading = async {
        let (mut part, mut all) = ([0; 400], 0);
        while let read @ 1.. = reader.read(&mut part).await.unwrap() {
            all += read;
            sleep(TICK).await;
        }
        all
    };
    tokio::select! {
        all = reading => assert!(all > bytes, "{all} bytes"),
        () = sending => panic!("the gateway has closed"),
    }
}

#[tokio::test]
async fn a_line_below_the_least_rate_is_cut_off() {
    for client in [Client::new, Client::h2] {
        let upstream = large(1_000_000);
        let gateway = gateway(upstream.url(), LEAST).await;
        let line = Line {
            rate: 200,
            pause: Duration::ZERO,
        };
        let client = client(line.to(gateway.address).await);
        let request = Request::get("/").body(body::empty()).unwrap();
        tokio::select! {
            answer = client.try_request(request) => assert!(answer.is_err()),
            () = counted(&gateway, "answer", 1) => {}
        }
    }
}

/// A server that does not answer may be gone, and then answers nothing on this connection.
#[tokio::test]
async fn after_a_timeout_an_http_2_upstream_is_asked_on_a_fresh_connection() {
    let upstream = Upstream::speaking(Speaks::Http2, |request| async move {
        if request.uri().path() == "/silent" {
            std::future::pending::<()>().await;
        }
        Response::new(body::full("ok"))
    });
    let yaml = format!("timeouts: {{ upstream: 300ms }}\n{}", crate::lab::ALL);
    let gateway = gateway(upstream.url(), &yaml).await;
    let client = Client::new(gateway.address);
    for (path, status, connections) in [("/", 200, 1), ("/silent", 504, 1), ("/", 200, 2)] {
        assert_eq!(client.get(path).await.status, status, "{path}");
        assert_eq!(upstream.connections(), connections, "{path}");
    }
}
