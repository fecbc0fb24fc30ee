//! Clients that never stop but send their body, or take their answer, more slowly than they must; and waits that are not
//! the client's fault.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use tidegate_testkit::{Action, Client, RawClient, RawUpstream, Upstream, When, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::lab::{LONG, Lab, OK, gateway};
use crate::support::TestGateway;
use crate::support::asking::{answer_to, until};

/// How far a client may fall behind.
const AFTER: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(20);

/// A route with a least rate of 1,000 bytes per second, to an upstream that takes two requests at once.
const LEAST: &str = "
timeouts: { connect: 20s, slow: { rate: 1000B/s, after: 400ms } }
upstreams: { it: { servers: [UPSTREAM], max_connections: 2 } }
routes: [{ name: all, path: /**, upstream: it }]";

/// The sum of some lines of the metrics, by what they begin with.
pub(crate) async fn metric(gateway: &TestGateway, line: &str) -> u64 {
    let page = Client::fresh(gateway.admin).get("/metrics").await;
    let found = page.text().lines().filter_map(|found| {
        let (_, value) = found.strip_prefix(line)?.rsplit_once(' ')?;
        value.parse::<u64>().ok()
    });
    found.sum()
}

/// Waits until all that was cut off is counted: so many parts of this kind.
pub(crate) async fn counted(gateway: &TestGateway, part: &str, count: u64) {
    let cut = format!("tidegate_slow_clients_total{{part=\"{part}\"}}");
    let slow = "tidegate_requests_total{route=\"all\",outcome=\"slow\"";
    until(&format!("{count} of {part}"), async || {
        (metric(gateway, &cut).await, metric(gateway, slow).await) == (count, count)
    })
    .await;
}

/// Sends `part` again and again until there is an answer.
async fn send_until_answered(client: &mut RawClient, part: &str) -> u16 {
    let deadline = Instant::now() + LONG;
    loop {
        assert!(Instant::now() < deadline, "no answer");
        match client.response(TICK).await {
            Ok(answer) => {
                assert!(answer.text().contains("body_timeout"), "{answer:?}");
                return answer.status();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}"),
        }
        client.send(part).await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_trickles_is_a_408() {
    let lab = Lab::new(LEAST).await;
    for (framing, part) in [
        ("Content-Length: 10000", "."),
        ("Transfer-Encoding: chunked", "1\r\n.\r\n"),
        // What frames a body is none of it.
        (
            "Transfer-Encoding: chunked",
            "1;extension=1234567890\r\n.\r\n",
        ),
    ] {
        let mut client = lab.connect().await;
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
        client.send(head).await.unwrap();
        assert_eq!(send_until_answered(&mut client, part).await, 408);
    }
    assert_eq!(lab.upstream.requests().len(), 0);
    counted(&lab.gateway, "request", 3).await;
}

/// Each of them holds a place at the upstream, and no longer than it may, whether the upstream has begun to answer or not.
#[tokio::test]
async fn bodies_that_trickle_over_http_2_keep_nobody_from_the_upstream() {
    let upstream = Upstream::start(|request: Request<hyper::body::Incoming>| async move {
        if request.uri().path() == "/at-once" {
            return Response::new(body::boxed(request.into_body()));
        }
        request.into_body().collect().await.ok();
        Response::new(body::full("ok"))
    });
    let gateway = gateway(upstream.url(), LEAST).await;
    let client = Arc::new(Client::h2(gateway.address));
    let mut trickles = Vec::new();
    for (path, status) in [("/", Some(408)), ("/at-once", None)] {
        let (mut sender, body) = body::channel();
        let client = client.clone();
        trickles.push(tokio::spawn(async move {
            let request = Request::post(path).body(body).unwrap();
            let dripping = async {
                while sender.send_data(".".into()).await.is_ok() {
                    sleep(TICK).await;
                }
                std::future::pending::<()>().await
            };
            tokio::select! {
                answer = client.try_request(request) => {
                    assert_eq!(answer.ok().map(|answer| answer.status.as_u16()), status);
                }
                () = dripping => {}
            }
        }));
    }
    upstream.wait_for(2, LONG).await;
    assert_eq!(client.get("/").await.status, 200, "both places were taken");
    for trickle in trickles {
        timeout(LONG, trickle).await.unwrap().unwrap();
    }
    counted(&gateway, "request", 2).await;
    assert_eq!(client.connections(), 1, "only the requests were given up");
}

#[tokio::test]
async fn a_body_that_keeps_to_the_rate_is_served() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), LEAST).await;
    for client in [Client::new, Client::h2] {
        let client = client(gateway.address);
        let (mut sender, body) = body::channel();
        let from = Instant::now();
        let sending = async {
            while from.elapsed() < 3 * AFTER {
                sender.send_data("x".repeat(200).into()).await.unwrap();
                sleep(TICK).await;
            }
            drop(sender);
        };
        let request = Request::post("/").body(body).unwrap();
        let (answer, ()) = tokio::join!(client.request(request), sending);
        assert_eq!(answer.status, 200);
    }
}

/// A gateway whose upstream answers with a body without end, and what tells that the gateway has given that up.
async fn endless() -> (Upstream, TestGateway, Arc<Notify>) {
    let given_up = Arc::new(Notify::new());
    let notify = given_up.clone();
    let upstream = Upstream::start(move |_| {
        let (mut sender, body) = body::channel();
        let notify = notify.clone();
        tokio::spawn(async move {
            while sender.send_data("x".repeat(16 * 1024).into()).await.is_ok() {}
            notify.notify_one();
        });
        async { Response::new(body) }
    });
    let gateway = gateway(upstream.url(), LEAST).await;
    (upstream, gateway, given_up)
}

/// Connects with room for little that is not read.
pub(crate) async fn narrow(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(address).await.unwrap()
}

#[tokio::test]
async fn an_answer_that_is_taken_in_drips_is_cut_off() {
    let (_upstream, gateway, given_up) = endless().await;
    let mut client = narrow(gateway.address).await;
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(get).await.unwrap();
    let reading = async {
        // Other than a client that reads nothing, this one always takes something.
        while client.read(&mut [0; 8]).await.is_ok_and(|read| read > 0) {
            sleep(TICK).await;
        }
    };
    tokio::select! {
        () = reading => {}
        given_up = timeout(LONG, given_up.notified()) => given_up.expect("the upstream still sends"),
    }
    counted(&gateway, "answer", 1).await;
}

#[tokio::test]
async fn an_answer_that_is_taken_at_the_rate_is_not() {
    for client in [Client::new, Client::h2] {
        let (_upstream, gateway, _given_up) = endless().await;
        let client = client(gateway.address);
        let mut answer = client
            .open(Request::get("/").body(body::empty()).unwrap())
            .await;
        let from = Instant::now();
        while from.elapsed() < 3 * AFTER {
            for _ in 0..16 {
                answer.body_mut().frame().await.unwrap().unwrap();
            }
            sleep(TICK).await;
        }
    }
}

/// The upstream takes its time for the head, and between events, and nobody waits for the client.
#[tokio::test]
async fn long_polls_and_events_live() {
    let upstream = Upstream::start(|request| async move {
        sleep(2 * AFTER).await;
        let (mut sender, body) = body::channel();
        tokio::spawn(async move {
            for _ in 0..3 {
                sleep(2 * AFTER).await;
                sender.send_data("data: x\n\n".into()).await.ok();
            }
            drop(request);
        });
        Response::new(body)
    });
    let gateway = gateway(upstream.url(), LEAST).await;
    for client in [Client::new, Client::h2] {
        let client = client(gateway.address);
        let answer = client.post("/", "x").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.text(), "data: x\n\n".repeat(3));
    }
}

/// In a call of gRPC, who waits for whom is between the two: the client may be silent, until the answer ends.
#[tokio::test]
async fn calls_in_both_directions_live() {
    let upstream = Upstream::echo();
    let gateway = gateway(upstream.url(), LEAST).await;
    for client in [Client::new, Client::h2] {
        let client = client(gateway.address);
        let (mut sender, request_body) = body::channel();
        sender.send_data("a".into()).await.unwrap();
        let request = Request::post("/").header("content-type", "application/grpc");
        let request = request.body(request_body).unwrap();
        let mut answer = client.open(request).await;
        for word in ["b", "c"] {
            answer.body_mut().frame().await.unwrap().unwrap();
            sleep(2 * AFTER).await;
            sender.send_data(word.into()).await.unwrap();
        }
        drop(sender);
        let rest = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(rest, "c");
    }
}

/// The client could send more, but the upstream does not take it.
#[tokio::test]
async fn a_body_that_waits_for_the_upstream_is_not_slow() {
    let script = [Action::Pause(3 * AFTER), Action::send(OK), Action::Close];
    let upstream = RawUpstream::start(When::Request, move |_| script.to_vec());
    let lab = Lab::around(upstream, LEAST).await;
    let mut client = lab.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(answer_to(&mut client, head).await.status(), 200);
}

/// A route can have a rate of its own, or none.
#[tokio::test]
async fn a_route_without_a_least_rate_waits_as_long_as_idle_says() {
    let yaml = "
timeouts: { slow: { rate: 1000B/s, after: 200ms } }
routes: [{ path: /**, upstream: UPSTREAM, timeouts: { slow: none } }]";
    let (lab, from) = (Lab::new(yaml).await, Instant::now());
    let mut client = lab.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n";
    client.send(head).await.unwrap();
    for _ in 0..20 {
        sleep(AFTER / 8).await;
        client.send(".").await.unwrap();
    }
    assert!(from.elapsed() > 2 * AFTER);
    assert_eq!(client.response(LONG).await.unwrap().status(), 200);
}
