//! Tunnels: who gets one, what passes, and what does not.

use http::Request;
use tidegate_testkit::{Client, Message, RawClient, RawUpstream, Speaks, body};
use tokio::net::TcpStream;

use crate::bench::{
    BOTH, HTTP1, LONG, Papers, SWITCH, echoes, gateway, handshake, sample, sample_becomes, switch,
    tunnelling,
};

/// One request goes to the upstream, whose clients may switch to WebSocket.
const TUNNELS: &str = "routes: [{ name: ws, path: /**, upstream: UPSTREAM, upgrade: [websocket] }]";
const OPEN: &str = "tidegate_tunnels{route=\"ws\"}";

/// A tunnel has a deadline of its own, and no least rate.
#[tokio::test]
async fn a_tunnel_may_be_silent_for_longer_than_a_request() {
    let upstream = tunnelling(Speaks::Http1);
    let slow = "timeouts: { slow: { rate: 1000B/s, after: 100ms } }";
    let gateway = gateway(upstream.url(), &format!("{slow}\n{TUNNELS}")).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "").await;
    for words in ["one", "two", "three"] {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        echoes(&mut client, words).await;
    }
}

#[tokio::test]
async fn bytes_go_both_ways_and_the_tunnel_is_counted_while_it_is_open() {
    let upstream = tunnelling(Speaks::Http1);
    let gateway = gateway(upstream.url(), TUNNELS).await;
    assert_eq!(sample(gateway.admin, OPEN).await, 0);
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    // Some clients do not wait for the answer.
    let head = switch(&mut client, "").await;
    let head = head.to_ascii_lowercase();
    assert!(
        head.starts_with("http/1.1 101 switching protocols\r\n"),
        "{head}"
    );
    for line in [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-accept: dghlihnhbxbszsbub25jzq==",
    ] {
        assert!(
            head.contains(&format!("\r\n{line}\r\n")),
            "{line} in {head}"
        );
    }
    assert!(head.contains("\r\nx-request-id: "), "{head}");
    for words in ["one", "two", &"x".repeat(300_000)] {
        echoes(&mut client, words).await;
    }
    assert_eq!(sample(gateway.admin, OPEN).await, 1);
    let seen = upstream.requests().remove(0);
    for (name, value) in [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    drop(client);
    sample_becomes(gateway.admin, OPEN, 0).await;
    sample_becomes(
        gateway.admin,
        "tidegate_requests_total{route=\"ws\",outcome=\"forwarded\",status=\"1xx\"}",
        1,
    )
    .await;
}

#[tokio::test]
async fn words_that_came_before_the_answer_are_not_lost() {
    let upstream = tunnelling(Speaks::Http1);
    let gateway = gateway(upstream.url(), TUNNELS).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    switch(&mut client, "early").await;
    let mut heard = [0; 5];
    tokio::io::AsyncReadExt::read_exact(&mut client, &mut heard)
        .await
        .unwrap();
    assert_eq!(&heard, b"early");
}

/// A tunnel was admitted: an override that blocks its client leaves it open, and no other is opened.
#[tokio::test]
async fn a_tunnel_of_a_client_that_is_blocked_stays_open() {
    let upstream = tunnelling(Speaks::Http1);
    let gateway = gateway(upstream.url(), TUNNELS).await;
    let mut client = TcpStream::connect(gateway.address).await.unwrap();
    let head = switch(&mut client, "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let block = Request::put("/overrides/127.0.0.1");
    let block = block.body(body::full(r#"{"action":"block","for":"never"}"#));
    let client_of_port = Client::fresh(gateway.admin).knows("etag");
    let answer = client_of_port.request(block.unwrap()).await;
    assert_eq!(answer.status, 200);
    echoes(&mut client, "still here").await;
    let mut other = TcpStream::connect(gateway.address).await.unwrap();
    let head = switch(&mut other, "").await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    echoes(&mut client, "and here").await;
}

/// A server that would rather speak HTTP/2 is asked in HTTP/1, on a connection of its own.
#[tokio::test]
async fn tls_on_both_sides() {
    let papers = Papers::new();
    let shown = papers.authority.issue(&["127.0.0.1"]);
    let upstream = tunnelling(Speaks::Tls(papers.authority.server(&shown, &BOTH)));
    let (url, ca) = (upstream.url(), papers.path("ca.pem"));
    let yaml = format!(
        "upstreams: {{ it: {{ servers: [\"{url}\"], tls: {{ ca: \"{ca}\" }} }} }}\n{TUNNELS}"
    );
    let gateway = papers.gateway("it", "", &yaml).await;
    let config = papers.authority.client(&HTTP1);
    let mut client = handshake(gateway.address, config, "localhost")
        .await
        .unwrap();
    let head = switch(&mut client, "").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    echoes(&mut client, "protected").await;
    let seen = upstream.requests().remove(0);
    assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
}

#[tokio::test]
async fn a_switch_is_a_request_and_limited_as_one() {
    let upstream = tunnelling(Speaks::Http1);
    let yaml = "
limits: { one: { fixed_window: { limit: 1, window: 31d } } }
routes: [{ path: /**, upstream: UPSTREAM, upgrade: [websocket], limits: [one] }]
";
    let gateway = gateway(upstream.url(), yaml).await;
    let mut first = TcpStream::connect(gateway.address).await.unwrap();
    let head = switch(&mut first, "").await;
    assert!(head.contains("x-ratelimit-remaining: 0\r\n"), "{head}");
    let mut second = TcpStream::connect(gateway.address).await.unwrap();
    let head = switch(&mut second, "").await;
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    // What is open stays open.
    echoes(&mut first, "still here").await;
}

/// Whatever is asked for beside what the route allows is an ordinary request.
#[tokio::test]
async fn what_is_not_allowed_is_not_asked_for() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let upstream = RawUpstream::answering(ok);
    let gateway = gateway(upstream.url(), TUNNELS).await;
    for asked in [
        SWITCH.replace("Upgrade: websocket", "Upgrade: foo"),
        SWITCH.replace("Upgrade: websocket", "Upgrade: h2c"),
        SWITCH.replace("Upgrade: websocket", "Upgrade: websocket, foo"),
        SWITCH.replace(
            "Upgrade: websocket",
            "Upgrade: websocket\r\nUpgrade: websocket",
        ),
        SWITCH.replace("Connection: keep-alive, Upgrade", "Connection: keep-alive"),
        SWITCH.replace("Host: a", "Host: a\r\nContent-Length: 2") + "{}",
    ] {
        let (answer, _) = RawClient::exchange(
            gateway.address,
            format!("{asked}GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"),
            LONG,
        )
        .await;
        let answers = Message::responses(&answer).unwrap();
        let statuses: Vec<u16> = answers.iter().map(Message::status).collect();
        assert_eq!(statuses, [200, 200], "{asked}");
    }
    for request in upstream.requests() {
        assert_eq!(
            (request.header("upgrade"), request.header("connection")),
            (None, None)
        );
    }
    assert_eq!(upstream.requests().len(), 12);
}

/// In HTTP/2 nobody switches, whatever the headers say.
#[tokio::test]
async fn http_2_knows_no_switch() {
    let upstream = tidegate_testkit::Upstream::ok();
    let gateway = gateway(upstream.url(), TUNNELS).await;
    assert_eq!(Client::h2(gateway.address).get("/ws").await.status, 200);
    assert_eq!(upstream.requests()[0].header("upgrade"), None);
}
