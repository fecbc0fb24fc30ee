//! Under which names the admin port answers: no web page may read it by a name of its own choice (DNS rebinding).

use std::net::SocketAddr;

use http::Method;
use tidegate_testkit::{Client, RawClient, Upstream};

use crate::kit::{answer_to, get, send};
use crate::support::TestGateway;

const OPEN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

async fn gateway(admin: &str) -> TestGateway {
    let upstream = Upstream::ok().url();
    TestGateway::start_with_admin(
        admin,
        &format!("routes: [{{ path: /**, upstream: \"{upstream}\" }}]"),
    )
    .await
}

async fn status(admin: SocketAddr, path: &str, headers: &[(&str, &str)]) -> u16 {
    get(&Client::fresh(admin), path, headers).await
}

/// The kubelet and load balancers ask by address, and so does Prometheus where it finds pods.
#[tokio::test]
async fn probes_by_address_are_answered() {
    let gateway = gateway("127.0.0.1:0").await;
    for path in OPEN {
        for host in [
            "127.0.0.1",
            "10.244.1.17:9901",
            "[fd00::17]:9901",
            "[::1]",
            "localhost",
            "LOCALHOST:9901",
        ] {
            assert_eq!(
                status(gateway.admin, path, &[("host", host)]).await,
                200,
                "{path} at {host}"
            );
        }
        // No browser leaves Host out.
        let mut probe = RawClient::connect(gateway.admin).await;
        assert_eq!(
            answer_to(&mut probe, format!("GET {path} HTTP/1.0\r\n\r\n"))
                .await
                .status(),
            200,
            "{path}"
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn pages_of_the_web_are_not() {
    for admin in [
        "127.0.0.1:0",
        "{ address: \"127.0.0.1:0\", token: \"k7-Vq+0pE\" }",
    ] {
        let gateway = gateway(admin).await;
        for path in OPEN {
            for headers in [
                [("host", "rebound.example.com")],
                [("host", "127.0.0.1.example.com:9901")],
                [("host", "gateway")],
                [("origin", "https://example.com")],
                [("origin", "null")],
            ] {
                let answer = send(&Client::fresh(gateway.admin), Method::GET, path, &headers).await;
                assert_eq!(answer.status, 403, "{path} {headers:?}");
                assert!(answer.text().contains("hosts:"), "{}", answer.text());
            }
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn names_are_listed_or_the_token_is_shown() {
    let admin =
        "{ address: \"127.0.0.1:0\", token: \"k7-Vq+0pE\", hosts: [gateway, Metrics.Example.com] }";
    let gateway = gateway(admin).await;
    for path in OPEN {
        for host in [
            "gateway:9901",
            "Gateway",
            "metrics.example.com",
            "metrics.example.com.",
        ] {
            assert_eq!(
                status(gateway.admin, path, &[("host", host)]).await,
                200,
                "{path} at {host}"
            );
        }
        let other = ("host", "other.example.com");
        let shown = ("authorization", "Bearer k7-Vq+0pE");
        assert_eq!(status(gateway.admin, path, &[other]).await, 403, "{path}");
        assert_eq!(
            status(gateway.admin, path, &[other, shown]).await,
            200,
            "{path}"
        );
    }
    gateway.stop().await;
}
