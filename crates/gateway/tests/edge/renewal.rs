//! Certificates that are renewed on disk.

use std::time::Duration;

use tidegate_testkit::{Client, Upstream};
use tokio_rustls::rustls::pki_types::CertificateDer;

use crate::bench::{ALL, BOTH, Papers, der, handshake, sample, sample_becomes, shown};
use crate::support::TestGateway;
use crate::support::asking::until;

const TAKEN: &str = "tidegate_certificate_reads_total{outcome=\"taken\"}";
const REFUSED: &str = "tidegate_certificate_reads_total{outcome=\"refused\"}";

async fn seen(papers: &Papers, gateway: &TestGateway) -> CertificateDer<'static> {
    let config = papers.authority.client(&BOTH);
    let stream = handshake(gateway.address, config, "localhost").await;
    shown(&stream.unwrap())
}

async fn shows(papers: &Papers, gateway: &TestGateway, expected: &CertificateDer<'static>) {
    until("the certificate is shown", async || {
        seen(papers, gateway).await == *expected
    })
    .await;
}

#[tokio::test]
async fn the_next_handshake_sees_a_new_certificate_and_open_connections_go_on() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    let open = papers.http2(&gateway);
    assert_eq!(open.get("/").await.status, 200);
    let renewed = papers.issue("own", &["localhost"]);
    shows(&papers, &gateway, &der(&renewed)).await;
    assert_eq!(open.get("/").await.status, 200);
    assert_eq!(open.connections(), 1);
    assert!(sample(gateway.admin, TAKEN).await >= 1);
}

/// A reload names other files, and the listener is the same.
#[tokio::test]
async fn the_next_handshake_sees_the_certificate_of_a_new_plan() {
    let (papers, upstream) = (Papers::new(), Upstream::ok());
    let gateway = papers.gateway(upstream.url(), "", ALL).await;
    let open = papers.http2(&gateway);
    assert_eq!(open.get("/").await.status, 200);
    for nth in 0..20 {
        let name = format!("other{nth}");
        let other = papers.issue(&name, &["localhost"]);
        let [cert, key] = ["pem", "key"].map(|kind| papers.path(&format!("{name}.{kind}")));
        let listen =
            format!("{{ address: 127.0.0.1:0, tls: {{ cert: \"{cert}\", key: \"{key}\" }} }}");
        let yaml = ALL.replace("UPSTREAM", &format!("\"{}\"", upstream.url()));
        let reloaded = gateway.reload_listening(&listen, &yaml).await;
        reloaded.unwrap();
        assert_eq!(seen(&papers, &gateway).await, der(&other));
        assert_eq!(open.get("/").await.status, 200);
    }
    assert_eq!(open.connections(), 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_broken_file_leaves_the_old_certificate_in_force() {
    let papers = Papers::new();
    let gateway = papers.gateway("http://127.0.0.1:1", "", ALL).await;
    let before = seen(&papers, &gateway).await;
    std::fs::write(papers.path("own.pem"), "no certificate").unwrap();
    sample_becomes(gateway.admin, REFUSED, 1).await;
    assert_eq!(seen(&papers, &gateway).await, before);
    // A key that is another certificate's.
    let other = papers.authority.issue(&["localhost"]);
    std::fs::write(papers.path("own.pem"), &other.pem).unwrap();
    sample_becomes(gateway.admin, REFUSED, 2).await;
    assert_eq!(seen(&papers, &gateway).await, before);
    std::fs::write(papers.path("own.key"), &other.key).unwrap();
    sample_becomes(gateway.admin, TAKEN, 1).await;
    assert_eq!(seen(&papers, &gateway).await, der(&other));
}

/// By listener and name, as it is in force: after a renewal on disk, and after a reload.
#[tokio::test]
async fn the_metrics_tell_when_certificates_end() {
    const IN_2040: u64 = 2_208_988_800;
    let ends = |name: &str| {
        let labels = format!("listener=\"127.0.0.1:0\",name=\"{name}\"");
        format!("tidegate_certificate_expiry_timestamp_seconds{{{labels}}}")
    };
    let papers = Papers::new();
    let until = |file: &str, names: &[&str], end: u64| {
        papers.issue_until(file, names, Duration::from_secs(end));
    };
    until("own", &["LocalHost", "other.test"], IN_2040);
    let gateway = papers.gateway("http://127.0.0.1:1", "", ALL).await;
    assert_eq!(sample(gateway.admin, &ends("localhost")).await, IN_2040);
    until("own", &["localhost"], IN_2040 + 1);
    sample_becomes(gateway.admin, &ends("localhost"), IN_2040 + 1).await;

    // Of two with one name it is the first to end; one for an address has no name. What is between a certificate and its
    // authority counts as well.
    until("later", &["localhost"], IN_2040 + 2);
    until("address", &["127.0.0.1"], IN_2040 + 3);
    until("between", &["between.test"], 9);
    let chain = ["address.pem", "between.pem"].map(|file| std::fs::read(papers.path(file)));
    let chain = chain.map(Result::unwrap).concat();
    std::fs::write(papers.path("chain.pem"), chain).unwrap();
    let pair = |cert: &str, key: &str| {
        let [cert, key] = [cert, key].map(|file| papers.path(file));
        format!("{{ cert: \"{cert}\", key: \"{key}\" }}")
    };
    let pairs = [
        pair("later.pem", "later.key"),
        pair("own.pem", "own.key"),
        pair("chain.pem", "address.key"),
    ];
    let tls = format!("{{ certificates: [{}] }}", pairs.join(", "));
    let listen = format!("[127.0.0.1:0, {{ address: \"[::1]:0\", tls: {tls} }}]");
    let yaml = ALL.replace("UPSTREAM", "\"http://127.0.0.1:1\"");
    gateway.reload_listening(&listen, &yaml).await.unwrap();
    let there = |name: &str| ends(name).replace("127.0.0.1:0", "[::1]:0");
    assert_eq!(
        sample(gateway.admin, &there("localhost")).await,
        IN_2040 + 1
    );
    assert_eq!(sample(gateway.admin, &there("")).await, 9);
    let page = Client::fresh(gateway.admin).get("/metrics").await;
    let samples = page
        .text()
        .matches("tidegate_certificate_expiry_timestamp_seconds{");
    assert_eq!(samples.count(), 2, "{}", page.text());
    gateway.stop().await;
}
