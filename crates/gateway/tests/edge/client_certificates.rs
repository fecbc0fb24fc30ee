//! Clients that show certificates of their own.

use std::sync::Arc;

use tidegate_testkit::{Authority, Client, Upstream};
use tokio_rustls::rustls::ClientConfig;

use crate::bench::{ALL, BOTH, Papers, becomes, failed};
use crate::support::TestGateway;

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
    becomes(&gateway, &failed("no_certificate"), 1).await;
    let strangers = Authority::new().issue(&["me"]);
    let strange = papers.authority.client_showing(&strangers, &BOTH);
    assert_eq!(status(&gateway, strange).await, None);
    let expired = papers.authority.issue_expired(&["me"]);
    let expired = papers.authority.client_showing(&expired, &BOTH);
    assert_eq!(status(&gateway, expired).await, None);
    becomes(&gateway, &failed("bad_certificate"), 2).await;
    assert_eq!(upstream.count(), 1);
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
    becomes(&gateway, &failed("bad_certificate"), 1).await;
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
