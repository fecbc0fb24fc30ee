//! Several limits on one request: one decision, charged to all of them or to none, on both stores.

use http::Method;
use serde_json::{Value, json};
use tidegate_testkit::Client;

use crate::kit::{Bench, on_both_stores, send, shown, told};

/// A route for all five algorithms, and one for each alone, on the same budgets.
async fn mixed(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  bucket: {{ token_bucket: {{ capacity: 8, refill: 1/d }} }}
  queue: {{ leaky_bucket: {{ queue: 9, drain: 1/d, nodelay: true }} }}
  window: {{ fixed_window: {{ limit: 5, window: 31d }} }}
  log: {{ sliding_window_log: {{ limit: 3, window: 1d }} }}
  counter: {{ sliding_window_counter: {{ limit: 7, window: 31d }} }}
routes:
  - {{ path: /all, upstream: UPSTREAM, limits: [bucket, queue, window, log, counter] }}
  - {{ path: /bucket, upstream: UPSTREAM, limits: [bucket] }}
  - {{ path: /queue, upstream: UPSTREAM, limits: [queue] }}
  - {{ path: /window, upstream: UPSTREAM, limits: [window] }}
  - {{ path: /log, upstream: UPSTREAM, limits: [log] }}
  - {{ path: /counter, upstream: UPSTREAM, limits: [counter] }}
"
    ))
    .await;
    let client = &bench.client;
    // The log leaves the smallest share, and is the only one that refuses.
    for expected in [(200, 2), (200, 1), (200, 0), (429, 0), (429, 0), (429, 0)] {
        let answer = client.get("/all").await;
        assert_eq!(told(&answer), shown(expected.0, 3, expected.1));
    }
    assert_eq!(bench.upstream.count(), 3);
    // Three requests are charged to each, and none of the refused ones.
    for (path, limit) in [
        ("/bucket", 8),
        ("/queue", 9),
        ("/window", 5),
        ("/counter", 7),
    ] {
        let answer = client.get(path).await;
        assert_eq!(told(&answer), shown(200, limit, limit - 4), "{path}");
    }
    assert_eq!(told(&client.get("/log").await), shown(429, 3, 0));
    bench.stop().await;
}

#[tokio::test]
async fn all_five_algorithms_decide_together() {
    on_both_stores(mixed).await;
}

async fn every_violation(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  hourly: {{ sliding_window_log: {{ limit: 1, window: 1h }} }}
  roomy: {{ fixed_window: {{ limit: 100, window: 31d }} }}
  daily: {{ sliding_window_log: {{ limit: 1, window: 1d }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [hourly, roomy, daily] }}
"
    ))
    .await;
    bench.client.get("/").await;
    let answer = bench.client.get("/").await;
    // `roomy` resets last, but it refused nothing.
    assert_eq!(told(&answer), shown(429, 1, 0));
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body["violated-policies"], json!(["hourly", "daily"]));
    let wait = body["retry_after"].as_u64().unwrap();
    assert!(
        (86_000..=86_400).contains(&wait),
        "the longest wait counts, not {wait} s"
    );
    assert_eq!(answer.header("retry-after"), Some(&*wait.to_string()));
    bench.stop().await;
}

#[tokio::test]
async fn a_refusal_names_every_limit_that_refused() {
    on_both_stores(every_violation).await;
}

/// `always` is charged whatever a request asks for, so that guessing is limited, too.
async fn always(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  guard: {{ fixed_window: {{ limit: 6, window: 31d }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 100, window: 31d }} }}
always: [guard]
routes:
  - {{ path: /api, methods: [GET], upstream: UPSTREAM, limits: [own] }}
"
    ))
    .await;
    let requests = [
        (Method::GET, "/nowhere", 404),
        (Method::POST, "/api", 405),
        (Method::GET, "/api%zz", 400),
        (Method::TRACE, "/api", 405),
        (Method::GET, "/api", 200),
        (Method::GET, "/nowhere", 404),
    ];
    for ((method, target, status), left) in requests.iter().zip([5, 4, 3, 2, 1, 0]) {
        let answer = send(&bench.client, method.clone(), target, &[]).await;
        assert_eq!(told(&answer), shown(*status, 6, left), "{method} {target}");
    }
    for (method, target, _) in &requests {
        let answer = send(&bench.client, method.clone(), target, &[]).await;
        assert_eq!(told(&answer), shown(429, 6, 0), "{method} {target}");
    }
    assert_eq!(bench.upstream.count(), 1);
    // Another address is not kept from anything, nor was this one's own limit charged more than once.
    let other = Client::new(bench.gateway.address).from_ip([127, 0, 0, 2]);
    assert_eq!(other.get("/nowhere").await.status, 404);
    assert_eq!(told(&other.get("/api").await), shown(200, 6, 4));
    bench.stop().await;
}

#[tokio::test]
async fn what_is_always_charged_is_charged_without_a_route() {
    on_both_stores(always).await;
}

async fn versions(store: &str) {
    let bench = Bench::of_limit(store, "fixed_window: { limit: 3, window: 31d }").await;
    let http2 = Client::h2(bench.gateway.address);
    assert_eq!(told(&bench.client.get("/").await), shown(200, 3, 2));
    assert_eq!(told(&http2.get("/").await), shown(200, 3, 1));
    assert_eq!(told(&bench.client.get("/").await), shown(200, 3, 0));
    assert_eq!(told(&http2.get("/").await), shown(429, 3, 0));
    bench.stop().await;
}

#[tokio::test]
async fn http1_and_http2_share_a_clients_budget() {
    on_both_stores(versions).await;
}
