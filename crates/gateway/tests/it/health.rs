//! `health`: checks of load balancers and containers, on the port of the traffic.

use http::Method;
use tidegate_testkit::{Port, RawClient};

use crate::kit::{Bench, LONG, answer_to, get, page, send};

/// A limit that admits one request, and a path for checks that `/**` would take as well.
const CHECKED: &str = "
health: /healthz
deny: [127.0.0.9]
limits: { once: { fixed_window: { limit: 1, window: 31d }, per: [] } }
always: [once]
routes: [{ path: /**, upstream: UPSTREAM }]
";

/// The plain checks of HAProxy, Docker and load balancers of clouds: without a host, by HTTP/1.0.
#[tokio::test]
async fn a_plain_check_is_answered_and_costs_nothing() {
    let bench = Bench::start(CHECKED).await;
    for _ in 0..3 {
        for head in [
            "OPTIONS /healthz HTTP/1.0\r\n\r\n",
            "GET /healthz HTTP/1.0\r\n\r\n",
            "GET /healthz HTTP/1.1\r\n\r\n",
            "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET /healthz?from=balancer HTTP/1.1\r\nHost: a\r\n\r\n",
        ] {
            let mut client = RawClient::connect(bench.gateway.address).await;
            let answer = answer_to(&mut client, head).await;
            assert_eq!(
                (answer.status(), &*answer.body),
                (200, &b"ok\n"[..]),
                "{head}"
            );
            assert_eq!(answer.header("cache-control"), Some("no-store"));
        }
        let mut client = RawClient::connect(bench.gateway.address).await;
        client.send("HEAD /healthz HTTP/1.0\r\n\r\n").await.unwrap();
        assert_eq!(client.response_to_head(LONG).await.unwrap().status(), 200);
        let http2 = tidegate_testkit::Client::h2(bench.gateway.address);
        assert_eq!(get(&http2, "/healthz", &[]).await, 200);
    }
    assert_eq!(bench.upstream.count(), 0);
    // No metric and no limit has seen them.
    let (_, metrics) = page(bench.gateway.admin, "/metrics").await;
    let counted = metrics
        .lines()
        .filter(|line| line.starts_with("tidegate_requests_total"));
    assert!(
        counted.clone().all(|line| line.ends_with(" 0")),
        "{metrics}"
    );
    assert_eq!(get(&bench.client, "/", &[]).await, 200);
    assert_eq!(get(&bench.client, "/", &[]).await, 429);
    assert_eq!(get(&bench.client, "/healthz", &[]).await, 200);
    bench.stop().await;
}

/// All but the path itself, and methods that ask for nothing, are requests like any other.
#[tokio::test]
async fn other_paths_and_methods_go_to_their_routes() {
    let bench = Bench::start(&CHECKED.replace("limit: 1", "limit: 100")).await;
    for (method, path) in [
        (Method::POST, "/healthz"),
        (Method::DELETE, "/healthz"),
        (Method::GET, "/healthz/"),
        (Method::GET, "//healthz"),
        (Method::GET, "/%68ealthz"),
        (Method::GET, "/Healthz"),
    ] {
        let before = bench.upstream.count();
        assert_eq!(send(&bench.client, method, path, &[]).await.status, 200);
        assert_eq!(bench.upstream.count(), before + 1, "{path}");
    }
    // Without the key there is no such path.
    let plain = Bench::start("routes: [{ path: /**, upstream: UPSTREAM }]").await;
    assert_eq!(get(&plain.client, "/healthz", &[]).await, 200);
    assert_eq!(plain.upstream.count(), 1);
    plain.stop().await;
    bench.stop().await;
}

/// A gateway whose limits nobody decides says so, and its balancer takes another one.
#[tokio::test]
async fn a_gateway_that_is_not_ready_says_so() {
    let nobody = Port::reserve().number();
    let redis = format!("store: {{ redis: {{ url: \"redis://127.0.0.1:{nobody}\" }} }}\n");
    let bench = Bench::start(&format!("{redis}{CHECKED}")).await;
    assert_eq!(page(bench.gateway.admin, "/readyz").await.0, 503);
    let answer = send(&bench.client, Method::GET, "/healthz", &[]).await;
    assert_eq!(
        (answer.status.as_u16(), answer.text()),
        (503, "not ready\n")
    );
    bench.stop().await;
}
