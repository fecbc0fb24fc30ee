//! Clients that are denied by their address, on listeners with TLS: none of them gets a handshake.

use std::net::Ipv4Addr;

use http::Request;
use tidegate_testkit::{Client, End, RawClient, Upstream, body};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::bench::{ALL, BOTH, LONG, Papers, sample, sample_becomes};

const REFUSED: &str = "tidegate_connections_refused_total{reason=\"deny\"}";
const DENIED: &str = "tidegate_requests_total{route=\"/**\",outcome=\"denied\",status=\"4xx\"}";

#[tokio::test]
async fn a_denied_address_gets_no_handshake() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let yaml = format!("deny: [127.0.0.2]\n{ALL}");
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let from = Ipv4Addr::new(127, 0, 0, 2);
    for number in 1..=3 {
        let mut denied = RawClient::connect_from(from, gateway.address).await;
        let (read, end) = denied.read_to_close(LONG).await;
        assert!(read.is_empty(), "{read:?}");
        assert_ne!(end, End::Deadline);
        sample_becomes(gateway.admin, REFUSED, number).await;
    }
    assert_eq!(papers.http2(&gateway).get("/").await.status, 200);
    assert_eq!(sample(gateway.admin, DENIED).await, 0);
}

/// A reload denies the next request of a connection that is open, and every new connection.
#[tokio::test]
async fn an_open_connection_is_told_why() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let (cert, key) = (papers.path("own.pem"), papers.path("own.key"));
    let listen = format!("{{ address: 127.0.0.1:0, tls: {{ cert: \"{cert}\", key: \"{key}\" }} }}");
    let routes = ALL.replace("UPSTREAM", &format!("\"{}\"", upstream.url()));
    let yaml = format!("log: {{ access: false }}\n{routes}");
    let gateway = crate::support::TestGateway::start_listening(&listen, &yaml).await;
    let client = papers.http2(&gateway);
    assert_eq!(client.get("/").await.status, 200);
    let denies = format!("deny: [127.0.0.1]\n{yaml}");
    gateway.reload_listening(&listen, &denies).await.unwrap();
    assert_eq!(client.get("/").await.status, 403);
    assert_eq!(client.connections(), 1);
    let request = Request::get("/").body(body::empty()).unwrap();
    assert!(papers.http2(&gateway).try_request(request).await.is_err());
    sample_becomes(gateway.admin, REFUSED, 1).await;
}

/// A network that an override blocks gets no handshake either, until the override is cleared.
#[tokio::test]
async fn a_blocked_address_gets_no_handshake() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    assert_eq!(papers.http2(&gateway).get("/").await.status, 200);
    let change = async |request: http::request::Builder, body| {
        let request = request.uri("/overrides/127.0.0.0%2F8").body(body).unwrap();
        let client = Client::fresh(gateway.admin).knows("etag");
        let answer = client.request(request).await;
        assert_eq!(answer.status, 200);
    };
    let block = body::full(r#"{"action":"block","for":"1h"}"#);
    change(Request::builder().method("PUT"), block).await;
    let request = Request::get("/").body(body::empty()).unwrap();
    assert!(papers.http2(&gateway).try_request(request).await.is_err());
    sample_becomes(gateway.admin, REFUSED, 1).await;
    change(Request::builder().method("DELETE"), body::empty()).await;
    assert_eq!(papers.http2(&gateway).get("/").await.status, 200);
}

/// What a proxy sends is for many clients: each of its requests is looked at.
#[tokio::test]
async fn a_trusted_proxy_is_served_whoever_it_speaks_for() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let yaml = format!("trusted_proxies: [127.0.0.1]\ndeny: [127.0.0.1, 192.0.2.0/24]\n{ALL}");
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let client = papers.http2(&gateway);
    for (address, status) in [("192.0.2.1", 403), ("198.51.100.1", 200)] {
        let request = Request::get("/").header("x-forwarded-for", address);
        let answer = client.request(request.body(body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{address}");
    }
    assert_eq!(sample(gateway.admin, REFUSED).await, 0);
}

#[tokio::test]
async fn a_client_that_a_proxy_header_names_gets_no_handshake() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let yaml = format!(
        "trusted_proxies: [127.0.0.1]\nclients: [{{ ip: {{ from: proxy_protocol }} }}]\ndeny: [192.0.2.0/24]\n{ALL}"
    );
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let begin = async |address: &str| {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        let header = format!("PROXY TCP4 {address} 198.51.100.1 4711 443\r\n");
        stream.write_all(header.as_bytes()).await.unwrap();
        let config = papers.authority.client(&BOTH);
        let name = "localhost".try_into().unwrap();
        tokio_rustls::TlsConnector::from(config)
            .connect(name, stream)
            .await
    };
    assert!(begin("192.0.2.7").await.is_err());
    sample_becomes(gateway.admin, REFUSED, 1).await;
    assert!(begin("198.51.100.7").await.is_ok());
}

/// Without TLS a client can be told.
#[tokio::test]
async fn a_denied_address_is_answered_where_no_tls_is_spoken() {
    let upstream = Upstream::ok();
    let yaml = format!("deny: [127.0.0.2]\n{ALL}");
    let gateway = crate::bench::gateway(upstream.url(), &yaml).await;
    let denied = Client::new(gateway.address).from_ip([127, 0, 0, 2]);
    assert_eq!(denied.get("/").await.status, 403);
    assert_eq!(sample(gateway.admin, DENIED).await, 1);
    assert_eq!(sample(gateway.admin, REFUSED).await, 0);
}
