//! What clients are told: which limit the headers describe, when there are none, and what a refusal says.

use http::{Method, Response};
use serde_json::{Value, json};
use tidegate_testkit::{Client, RawClient, Upstream, body};

use crate::kit::{Bench, LONG, number, send, send_get, shown, tells_of_limits, told};
use crate::support::TestGateway;

#[tokio::test]
async fn the_headers_describe_the_smallest_share_that_is_left() {
    let bench = Bench::start(
        "
limits:
  few: { fixed_window: { limit: 4, window: 31d }, per: [client, route] }
  many: { fixed_window: { limit: 12, window: 31d } }
routes:
  - { path: /few, upstream: UPSTREAM, limits: [many, few] }
  - { path: /many, upstream: UPSTREAM, limits: [many] }
",
    )
    .await;
    let client = &bench.client;
    assert_eq!(told(&client.get("/few").await), shown(200, 4, 3));
    for left in (1..=10).rev() {
        assert_eq!(told(&client.get("/many").await), shown(200, 12, left));
    }
    // Of `few` there are 2 of 4 left, of `many` none.
    assert_eq!(told(&client.get("/few").await), shown(200, 12, 0));
    assert_eq!(told(&client.get("/few").await), shown(429, 12, 0));
    bench.stop().await;
}

#[tokio::test]
async fn a_shared_limit_is_told_of_only_when_it_refuses() {
    let bench = Bench::start(
        "
limits:
  shared: { fixed_window: { limit: 3, window: 31d }, per: [route] }
  own: { fixed_window: { limit: 100, window: 31d } }
routes:
  - { path: /mixed, upstream: UPSTREAM, limits: [shared, own] }
  - { path: /shared, upstream: UPSTREAM, limits: [shared] }
",
    )
    .await;
    for left in [99, 98, 97] {
        assert_eq!(
            told(&bench.client.get("/mixed").await),
            shown(200, 100, left)
        );
        let answer = bench.client.get("/shared").await;
        assert!(answer.status == 200 && !tells_of_limits(&answer));
    }
    for path in ["/mixed", "/shared"] {
        assert_eq!(told(&bench.client.get(path).await), shown(429, 3, 0));
    }
    bench.stop().await;
}

#[tokio::test]
async fn where_nothing_is_limited_nothing_is_told() {
    let bench = Bench::start(
        "
limits:
  own: { fixed_window: { limit: 9, window: 31d } }
routes:
  - { path: /limited, methods: [GET], upstream: UPSTREAM, limits: [own] }
  - { path: /free, upstream: UPSTREAM }
",
    )
    .await;
    let requests = [
        (Method::GET, "/free", 200),
        (Method::GET, "/nowhere", 404),
        (Method::POST, "/limited", 405),
        (Method::GET, "/limited%zz", 400),
    ];
    for (method, target, status) in requests {
        let answer = send(&bench.client, method, target, &[]).await;
        assert_eq!(answer.status, status, "{target}");
        assert!(!tells_of_limits(&answer), "{target}: {:?}", answer.headers);
    }
    assert_eq!(told(&bench.client.get("/limited").await), shown(200, 9, 8));
    bench.stop().await;
}

#[tokio::test]
async fn a_refusal_is_a_problem_that_programs_and_people_can_read() {
    let bench = Bench::of_limit("", "sliding_window_log: { limit: 1, window: 10m }").await;
    bench.client.get("/").await;
    let answer = bench.client.get("/").await;
    assert_eq!(answer.status, 429);
    assert_eq!(
        answer.header("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let wait = number(&answer, "retry-after").unwrap();
    assert!((1..=600).contains(&wait));
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(
        body,
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Too Many Requests",
            "status": 429,
            "detail": format!("Too many requests; the next one is admitted in {wait} s."),
            "error": "rate_limit_exceeded",
            "retry_after": wait,
            "violated-policies": ["it"],
        })
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_refused_head_request_gets_the_head_alone() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await;
    let mut client = RawClient::connect(bench.gateway.address).await;
    // What came after the head would be taken for the next answer.
    for status in [200, 429, 429] {
        client
            .send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n")
            .await
            .unwrap();
        let answer = client.response_to_head(LONG).await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
    }
    send_get(&mut client, "/").await;
    let answer = client.response(LONG).await.unwrap();
    assert!(answer.text().contains("rate_limit_exceeded"));
    bench.stop().await;
}

/// An upstream that limits by itself, behind a limit of ten.
async fn upstream_with(
    headers: &'static [(&'static str, &'static str)],
) -> (Upstream, TestGateway) {
    let upstream = Upstream::start(move |_| async move {
        let mut answer = Response::builder();
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        answer.body(body::empty()).unwrap()
    });
    let gateway = TestGateway::start(&format!(
        "
limits:
  ten: {{ fixed_window: {{ limit: 10, window: 31d }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [ten] }}
",
        upstream.url()
    ))
    .await;
    (upstream, gateway)
}

#[tokio::test]
async fn an_upstreams_own_limit_is_told_whole_while_it_leaves_less() {
    let (_upstream, gateway) = upstream_with(&[
        ("x-ratelimit-limit", "50"),
        ("x-ratelimit-remaining", "7"),
        ("x-ratelimit-reset", "12"),
    ])
    .await;
    let client = Client::new(gateway.address);
    for _ in [9, 8] {
        let answer = client.get("/").await;
        assert_eq!(told(&answer), shown(200, 50, 7));
        assert_eq!(answer.header("x-ratelimit-reset"), Some("12"));
    }
    for left in [7, 6] {
        let answer = client.get("/").await;
        assert_eq!(told(&answer), shown(200, 10, left));
        assert!(number(&answer, "x-ratelimit-reset").unwrap() > 1_700_000_000);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn an_upstreams_own_limit_is_told_where_ours_has_nothing_to_say() {
    let upstream = Upstream::start(|_| async {
        let answer = Response::builder().header("x-ratelimit-remaining", "7");
        answer.body(body::empty()).unwrap()
    });
    let routes = format!(
        "routes: [{{ path: /**, upstream: \"{}\" }}]\n",
        upstream.url()
    );
    let gateway = TestGateway::start(&routes).await;
    let answer = Client::new(gateway.address).get("/").await;
    assert_eq!(told(&answer), (200, None, Some(7)));
    gateway.stop().await;
}

#[tokio::test]
async fn half_a_triple_is_replaced_by_a_whole_one() {
    let (_upstream, gateway) = upstream_with(&[("x-ratelimit-remaining", "0")]).await;
    let answer = Client::new(gateway.address).get("/").await;
    assert_eq!(told(&answer), shown(200, 10, 9));
    gateway.stop().await;
}
