//! Handshakes that never end, or are none, and the clients beside them.

use std::net::Ipv4Addr;
use std::time::Duration;

use http_body_util::BodyExt as _;
use tidegate_testkit::{End, RawClient, Upstream, body};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::bench::{ALL, HTTP1, LONG, Papers, failed, handshake, sample, sample_becomes};
use crate::support::asking::get_each;

/// The first bytes of a handshake: a record that says that 512 bytes follow.
const BEGUN: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3];

#[tokio::test]
async fn a_handshake_has_the_time_of_a_head_and_keeps_nobody_waiting() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let yaml = format!("timeouts: {{ header: 2s }}\n{ALL}");
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let mut stuck = Vec::new();
    for n in 0..100 {
        let mut client = RawClient::connect(gateway.address).await;
        if n % 2 == 0 {
            client.send(BEGUN).await.unwrap();
        }
        stuck.push(client);
    }
    let good = papers.http2(&gateway);
    get_each(&good, 20, "/", &[], 200).await;
    for mut client in stuck {
        let (_, end) = client.read_to_close(LONG).await;
        assert_ne!(end, End::Deadline);
    }
    assert_eq!(sample(gateway.admin, &failed("timeout")).await, 100);
    assert_eq!(good.get("/").await.status, 200);
    assert_eq!(good.connections(), 1);
}

/// Whoever begins handshakes and ends none holds a few hundred at most, and clients elsewhere notice nothing.
#[tokio::test]
async fn unfinished_handshakes_of_one_address_are_bounded() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let yaml = format!("timeouts: {{ header: 1h }}\n{ALL}");
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let from = Ipv4Addr::new(127, 0, 0, 2);
    let mut stuck = Vec::new();
    for _ in 0..300 {
        stuck.push(RawClient::connect_from(from, gateway.address).await);
    }
    sample_becomes(gateway.admin, &failed("too_many"), 44).await;
    // Those that came last were closed.
    let (_, end) = stuck.pop().unwrap().read_to_close(LONG).await;
    assert_ne!(end, End::Deadline);
    assert_eq!(papers.http2(&gateway).get("/").await.status, 200);
    // One that leaves makes room for another.
    drop(stuck);
    sample_becomes(gateway.admin, &failed("closed"), 256).await;
    drop(RawClient::connect_from(from, gateway.address).await);
    sample_becomes(gateway.admin, &failed("closed"), 257).await;
    assert_eq!(sample(gateway.admin, &failed("too_many")).await, 44);
}

/// The time is that of handshake and head together.
#[tokio::test]
async fn a_client_that_says_nothing_after_its_handshake_is_cut_off_as_well() {
    let papers = Papers::new();
    let yaml = format!("timeouts: {{ header: 500ms }}\n{ALL}");
    let gateway = papers.gateway("http://127.0.0.1:1", "", &yaml).await;
    let config = papers.authority.client(&HTTP1);
    let mut stream = handshake(gateway.address, config, "localhost")
        .await
        .unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost").await.unwrap();
    let mut answer = [0; 64];
    let read = tokio::time::timeout(LONG, stream.read(&mut answer)).await;
    let read = read.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn plain_http_on_a_port_of_tls_is_refused_and_counted() {
    let papers = Papers::new();
    let gateway = papers.gateway("http://127.0.0.1:1", "", ALL).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (answer, end) = RawClient::exchange(gateway.address, request, LONG).await;
    // An alert, which is no HTTP.
    assert!(answer.first().is_none_or(|kind| *kind == 21), "{answer:?}");
    assert_ne!(end, End::Deadline);
    sample_becomes(gateway.admin, &failed("not_tls"), 1).await;
    drop(RawClient::connect(gateway.address).await);
    sample_becomes(gateway.admin, &failed("closed"), 1).await;
}

#[tokio::test]
async fn a_client_that_does_not_believe_us_is_counted() {
    let papers = Papers::new();
    let gateway = papers.gateway("http://127.0.0.1:1", "", ALL).await;
    let suspicious = Papers::new().authority.client(&HTTP1);
    let error = handshake(gateway.address, suspicious, "localhost").await;
    assert!(error.is_err());
    sample_becomes(gateway.admin, &failed("refused_by_client"), 1).await;
}

/// A client that stops reading costs its answer, not the gateway's patience.
#[tokio::test]
async fn a_client_that_takes_nothing_is_cut_off() {
    let upstream = Upstream::start(|_| async {
        let (mut sender, body) = body::channel();
        tokio::spawn(async move {
            let part = vec![b'x'; 64 << 10];
            while sender.send_data(part.clone().into()).await.is_ok() {}
        });
        http::Response::new(body)
    });
    let papers = Papers::new();
    let yaml = format!("timeouts: {{ slow: {{ after: 300ms }} }}\n{ALL}");
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let config = papers.authority.client(&HTTP1);
    let mut stream = handshake(gateway.address, config, "localhost")
        .await
        .unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let ended = "tidegate_requests_total{route=\"/**\",outcome=\"slow\",status=\"2xx\"}";
    sample_becomes(gateway.admin, ended, 1).await;
    drop(stream);
}

/// Events come as they happen, whatever protects the connection.
#[tokio::test]
async fn events_are_not_held_back() {
    let (papers, upstream) = (Papers::new(), Upstream::echo());
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    for client in [papers.http1(&gateway), papers.http2(&gateway)] {
        let (mut sender, events) = body::channel();
        let request = http::Request::post("/").header("content-type", "text/event-stream");
        let mut answer = client.open(request.body(events).unwrap()).await;
        for event in ["data: one\n\n", "data: two\n\n"] {
            // The second is written only when the first has arrived.
            sender.send_data(event.into()).await.unwrap();
            let frame = tokio::time::timeout(LONG, answer.body_mut().frame()).await;
            let frame = frame.unwrap().unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), event);
        }
    }
    tokio::time::timeout(Duration::from_secs(30), gateway.stop())
        .await
        .unwrap();
}
