//! Clients that show certificates of their own.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_testkit::{Authority, Certificate, Client, Upstream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion, version};

use crate::bench::{ALL, BOTH, HTTP1, LONG, Papers, failed, handshake, sample_becomes};
use crate::support::TestGateway;

/// Sessions are resumed in another way in each.
const TLS_VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS12, &version::TLS13];

/// A request's status, or none if there is no connection.
async fn status(gateway: &TestGateway, config: Arc<ClientConfig>) -> Option<u16> {
    let client = Client::h2(gateway.address).secured(config, "localhost");
    let request = http::Request::get("/").body(tidegate_testkit::body::empty());
    let answer = client.try_request(request.unwrap()).await;
    answer.ok().map(|answer| answer.status.as_u16())
}

async fn gateway(papers: &Papers, upstream: &Upstream, more: &str) -> TestGateway {
    let ca = papers.path("ca.pem");
    let more = format!("client_ca: \"{ca}\"{more}");
    papers.gateway(upstream.url(), &more, ALL).await
}

#[tokio::test]
async fn a_required_certificate_must_be_of_the_authority() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = gateway(&papers, &upstream, "").await;
    let mine = papers.authority.issue(&["me"]);
    let known = papers.authority.client_showing(&mine, &BOTH);
    assert_eq!(status(&gateway, known).await, Some(200));
    assert_eq!(status(&gateway, papers.authority.client(&BOTH)).await, None);
    sample_becomes(gateway.admin, &failed("no_certificate"), 1).await;
    let strangers = Authority::new().issue(&["me"]);
    let strange = papers.authority.client_showing(&strangers, &BOTH);
    assert_eq!(status(&gateway, strange).await, None);
    let expired = papers.authority.issue_expired(&["me"]);
    let expired = papers.authority.client_showing(&expired, &BOTH);
    assert_eq!(status(&gateway, expired).await, None);
    sample_becomes(gateway.admin, &failed("bad_certificate"), 2).await;
    assert_eq!(upstream.count(), 1);
}

/// A client whose certificate nobody issued is known by that certificate alone.
#[tokio::test]
async fn a_certificate_that_itself_is_listed_is_trusted() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let own = Authority::own(&["me"]);
    for (listed, expected) in [
        (&own, Some(200)),
        (&Authority::own(&["me"]), None),
        (&papers.authority.issue(&["me"]), None),
    ] {
        std::fs::write(papers.path("clients.pem"), &listed.pem).unwrap();
        let more = format!("client_ca: \"{}\"", papers.path("clients.pem"));
        let gateway = papers.gateway(upstream.url(), &more, ALL).await;
        let showing = papers.authority.client_showing(&own, &BOTH);
        assert_eq!(status(&gateway, showing).await, expected);
    }
    let expired = Authority::own_expired(&["me"]);
    std::fs::write(papers.path("clients.pem"), &expired.pem).unwrap();
    let more = format!("client_ca: \"{}\"", papers.path("clients.pem"));
    let gateway = papers.gateway(upstream.url(), &more, ALL).await;
    let showing = papers.authority.client_showing(&expired, &BOTH);
    assert_eq!(status(&gateway, showing).await, None);
}

/// The metric has the cause.
#[tokio::test]
async fn a_certificate_of_version_1_is_told_from_a_wrong_one() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../net/tests/certificates/version-1"
    );
    let read = |end: &str| std::fs::read_to_string(format!("{folder}.{end}")).unwrap();
    let old = Certificate {
        pem: read("pem"),
        key: read("key"),
    };
    let gateway = gateway(&papers, &upstream, "").await;
    let showing = papers.authority.client_showing(&old, &BOTH);
    assert_eq!(status(&gateway, showing).await, None);
    sample_becomes(gateway.admin, &failed("unsupported_certificate"), 1).await;
}

#[tokio::test]
async fn an_optional_one_may_be_missing_but_not_wrong() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = gateway(&papers, &upstream, ", client_cert: optional").await;
    let mine = papers.authority.issue(&["me"]);
    let known = papers.authority.client_showing(&mine, &BOTH);
    assert_eq!(status(&gateway, known).await, Some(200));
    assert_eq!(
        status(&gateway, papers.authority.client(&BOTH)).await,
        Some(200)
    );
    let strangers = Authority::new().issue(&["me"]);
    let strange = papers.authority.client_showing(&strangers, &BOTH);
    assert_eq!(status(&gateway, strange).await, None);
    sample_becomes(gateway.admin, &failed("bad_certificate"), 1).await;
}

/// No client can tell an upstream of a certificate that it never showed.
#[tokio::test]
async fn what_other_proxies_tell_of_certificates_is_not_believed_of_clients() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    let request = http::Request::get("/")
        .header("x-forwarded-client-cert", "Subject=\"CN=admin\"")
        .header("x-forwarded-tls-client-cert", "MIIB")
        .body(tidegate_testkit::body::empty());
    let answer = papers.http1(&gateway).request(request.unwrap()).await;
    assert_eq!(answer.status, 200);
    let seen = upstream.requests().remove(0);
    assert!(
        !seen
            .headers
            .keys()
            .any(|name| name.as_str().contains("cert"))
    );
}

/// Connects, asks for something, and says how the handshake went.
async fn kind_of_handshake(gateway: &TestGateway, config: &Arc<ClientConfig>) -> HandshakeKind {
    let stream = handshake(gateway.address, config.clone(), "localhost").await;
    let mut stream = stream.unwrap();
    // Tickets of TLS 1.3 come with the first answer.
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await;
    read.unwrap().unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    stream.get_ref().1.handshake_kind().unwrap()
}

/// What a resumed session says of a client was true when it began: nobody looks at the certificate again.
#[tokio::test]
async fn a_client_that_shows_a_certificate_shows_it_in_every_handshake() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let mine = papers.authority.issue(&["me"]);
    let full = HandshakeKind::Full;
    for version in TLS_VERSIONS {
        for more in ["", ", client_cert: optional"] {
            let gateway = gateway(&papers, &upstream, more).await;
            let known = papers
                .authority
                .client_of_version(Some(&mine), &HTTP1, version);
            for _ in 0..3 {
                let kind = kind_of_handshake(&gateway, &known).await;
                assert_eq!(kind, full, "{version:?}{more}");
            }
        }
        // Where nobody is asked for one, sessions are resumed.
        let gateway = papers.gateway(upstream.url(), "", ALL).await;
        let anybody = papers.authority.client_of_version(None, &HTTP1, version);
        assert_eq!(kind_of_handshake(&gateway, &anybody).await, full);
        let again = kind_of_handshake(&gateway, &anybody).await;
        assert_eq!(again, HandshakeKind::Resumed, "{version:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_has_ended_opens_nothing_and_keeps_nothing_open() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = gateway(&papers, &upstream, "").await;
    // Long enough for four handshakes on a busy machine.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end = Duration::from_secs(now.as_secs() + 8);
    let mine = papers.authority.issue_until(&["me"], end);
    let mut open = Vec::new();
    for version in TLS_VERSIONS {
        for protocols in [&HTTP1[..], &["h2"]] {
            let config = papers
                .authority
                .client_of_version(Some(&mine), protocols, version);
            let client = match protocols {
                ["h2"] => Client::h2(gateway.address),
                _ => Client::new(gateway.address),
            };
            let client = client.secured(config.clone(), "localhost");
            assert_eq!(client.get("/").await.status, 200);
            open.push((config, client));
        }
    }
    let served = upstream.count();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    tokio::time::sleep((end + Duration::from_secs(1)).saturating_sub(now)).await;
    for (config, client) in &open {
        // A client may send it again on a connection of its own, where it shows what it has by then.
        let answer = client.get("/").await;
        assert_eq!(answer.status, 421, "{answer:?}");
        assert_eq!(client.connections(), 1);
        let stream = handshake(gateway.address, config.clone(), "localhost").await;
        // In TLS 1.3 a client learns only afterwards that it is refused.
        if let Ok(mut stream) = stream {
            let read = tokio::time::timeout(LONG, stream.read(&mut [0; 64])).await;
            assert!(read.unwrap().is_err(), "an ended certificate gets in");
        }
    }
    sample_becomes(gateway.admin, &failed("bad_certificate"), open.len() as u64).await;
    assert_eq!(upstream.count(), served);
}
