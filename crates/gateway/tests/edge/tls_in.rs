//! TLS towards clients: which HTTP is spoken, which certificate is shown, what upstreams are told.

use std::process::{Command, Stdio};
use std::time::Duration;

use http::Version;
use tidegate_testkit::{Client, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::bench::{ALL, BOTH, HTTP1, Papers, der, handshake, sample_becomes, shown};
use crate::support::{TestGateway, pass};

#[tokio::test]
async fn the_handshake_says_which_http_is_spoken_and_the_upstream_is_told_of_tls() {
    let upstream = Upstream::ok();
    let papers = Papers::new();
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    let unnamed = Client::new(gateway.address).secured(papers.authority.client(&[]), "localhost");
    for (client, version) in [
        (papers.http1(&gateway), Version::HTTP_11),
        (papers.http2(&gateway), Version::HTTP_2),
        (unnamed, Version::HTTP_11),
    ] {
        for _ in 0..3 {
            let answer = client.get("/").await;
            assert_eq!((answer.status.as_u16(), answer.version), (200, version));
        }
        assert_eq!(client.connections(), 1);
    }
    for request in upstream.requests() {
        assert_eq!(request.header("x-forwarded-proto"), Some("https"));
    }
    assert_eq!(upstream.count(), 9);
}

/// Whatever a client names first, by a client whose order is its user's: openssl.
#[tokio::test]
async fn the_gateway_chooses_the_cipher_suite() {
    let papers = Papers::new();
    let gateway = papers.gateway("http://127.0.0.1:1", "", ALL).await;
    let address = gateway.addresses[gateway.addresses.len() - 1].to_string();
    for (version, option, offered, chosen) in [
        (
            "-tls1_2",
            "-cipher",
            "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
        (
            "-tls1_3",
            "-ciphersuites",
            "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384",
            "TLS_AES_256_GCM_SHA384",
        ),
    ] {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", &address, version, option, offered]);
        openssl.stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || openssl.output().unwrap());
        let output = output.await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&format!("Cipher is {chosen}")), "{said}");
    }
}

#[tokio::test]
async fn a_client_that_speaks_neither_is_refused_in_the_handshake() {
    let papers = Papers::new();
    let gateway = papers.gateway("http://127.0.0.1:1", "", ALL).await;
    let config = papers.authority.client(&["spdy/3"]);
    let error = handshake(gateway.address, config, "localhost").await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
}

#[tokio::test]
async fn each_name_has_its_certificate_and_the_first_is_for_all_others() {
    let papers = Papers::new();
    let first = papers.issue("a", &["a.example.com"]);
    let second = papers.issue("b", &["b.example.com", "*.shop.example.com"]);
    let listed = |name: &str| {
        let (cert, key) = (
            papers.path(&format!("{name}.pem")),
            papers.path(&format!("{name}.key")),
        );
        format!("{{ cert: \"{cert}\", key: \"{key}\" }}")
    };
    let tls = format!("certificates: [{}, {}]", listed("a"), listed("b"));
    let listen = format!("[ 127.0.0.1:0, {{ address: 127.0.0.1:0, tls: {{ {tls} }} }} ]");
    let yaml = ALL.replace("UPSTREAM", "http://127.0.0.1:1");
    let gateway = TestGateway::start_listening(&listen, &yaml).await;
    let secured = gateway.addresses[1];
    for (name, expected) in [
        ("a.example.com", &first),
        ("B.Example.com", &second),
        ("x.shop.example.com", &second),
    ] {
        let config = papers.authority.client(&BOTH);
        let stream = handshake(secured, config, name).await.unwrap();
        assert_eq!(shown(&stream), der(expected), "{name}");
    }
    // Which is of no use to whoever asked for another name, but tells whom they met.
    for name in ["x.y.shop.example.com", "shop.example.com", "127.0.0.1"] {
        let error = handshake(secured, papers.authority.client(&BOTH), name).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("not valid for name") && error.contains("a.example.com"),
            "{name}: {error}"
        );
    }
    // The other listener is as it was.
    assert_eq!(Client::new(gateway.address).get("/").await.status, 502);
}

/// The proxy in front says whose connection it is, then the client itself begins its handshake.
#[tokio::test]
async fn a_proxy_speaks_before_the_handshake() {
    let upstream = Upstream::ok();
    let papers = Papers::new();
    let yaml = format!(
        "trusted_proxies: [127.0.0.0/8]\nclients: [{{ ip: {{ from: proxy_protocol }} }}]\n{ALL}"
    );
    let gateway = papers.gateway(upstream.url(), "", &yaml).await;
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    let told = b"PROXY TCP4 203.0.113.7 203.0.113.1 4711 443\r\n";
    stream.write_all(told).await.unwrap();
    let connector = TlsConnector::from(papers.authority.client(&HTTP1));
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, stream).await.unwrap();
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let seen = upstream.requests().remove(0);
    assert_eq!(seen.header("x-forwarded-for"), Some("203.0.113.7"));
    assert_eq!(seen.header("x-forwarded-proto"), Some("https"));
}

/// What rests is the plain connection below; what was agreed on in the handshake stays.
#[tokio::test]
async fn a_connection_that_rests_is_as_protected_as_before() {
    let upstream = Upstream::ok();
    let papers = Papers::new();
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    let client = papers.http1(&gateway);
    for _ in 0..3 {
        assert_eq!(client.get("/").await.status.as_u16(), 200);
        pass(Duration::from_millis(2_100)).await;
        sample_becomes(gateway.admin, "tidegate_connections_resting", 1).await;
    }
    assert_eq!(client.connections(), 1);
    for request in upstream.requests() {
        assert_eq!(request.header("x-forwarded-proto"), Some("https"));
    }
}
