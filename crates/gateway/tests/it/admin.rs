//! The admin port: health for probes, and what else it serves to all. `one_client` and `admin_token` have the rest. What `/readyz` says of a Redis that is away stands in `outage`,
//! of a gateway that stops in `drain`.

use http::Method;
use tidegate_testkit::Client;

use crate::kit::{Bench, page, send};

#[tokio::test]
async fn it_serves_its_pages_and_names_them() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await;
    let admin = bench.gateway.admin;
    assert_eq!(page(admin, "/healthz").await, (200, "ok\n".into()));
    assert_eq!(page(admin, "/readyz").await, (200, "ready\n".into()));
    assert_eq!(page(admin, "/metrics").await.0, 200);
    for path in ["/status", "/metrics/", "/healthz/x", "/admin"] {
        let (status, text) = page(admin, path).await;
        assert_eq!(status, 404, "{path}");
        assert!(
            text.contains(
                "/, /status.json, /events, /healthz, /readyz, /metrics, /config, /overrides, /why/{id}, /clients/{name} and /limits/{name}"
            ),
            "{text}"
        );
    }
    bench.stop().await;
}

#[tokio::test]
async fn it_is_for_reading() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await;
    let client = Client::new(bench.gateway.admin);
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let answer = send(&client, method.clone(), "/healthz", &[]).await;
        assert_eq!(answer.status, 405, "{method}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }
    let answer = send(&client, Method::HEAD, "/healthz", &[]).await;
    assert_eq!((answer.status.as_u16(), answer.text()), (200, ""));
    bench.stop().await;
}

#[tokio::test]
async fn it_is_not_on_the_port_of_clients_nor_limited_itself() {
    let bench = Bench::start(
        "
limits:
  once: { fixed_window: { limit: 1, window: 31d }, per: [ip] }
always: [once]
routes:
  - { path: /api, upstream: UPSTREAM }
",
    )
    .await;
    assert_eq!(bench.client.get("/metrics").await.status, 404);
    assert_eq!(bench.client.get("/healthz").await.status, 429);
    for _ in 0..3 {
        assert_eq!(page(bench.gateway.admin, "/healthz").await.0, 200);
    }
    bench.stop().await;
}
