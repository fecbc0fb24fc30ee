//! Routes in front of an upstream that takes `/API/Login` and `/api/login.` for `/api/login`.

use crate::kit::{Bench, on_both_stores, raw_status};
use crate::support::commands::{explained, written};

async fn start(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
limits:
  login: {{ fixed_window: {{ limit: 2, window: 31d }} }}
  code: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [\"path:phone\"] }}
routes:
  - {{ path: /API/Login, methods: [POST], upstream: UPSTREAM, limits: [login], case_insensitive: true }}
  - {{ path: \"/otp/{{phone}}\", upstream: UPSTREAM, limits: [code], case_insensitive: true }}
  - {{ path: /Exact/login, upstream: UPSTREAM, limits: [login] }}
  - path: /app/files/**
    upstream: UPSTREAM
    limits: [login]
    case_insensitive: true
    encoded_slashes: keep
    strip_prefix: /app
  - {{ path: /other/**, upstream: UPSTREAM }}
"
    ))
    .await
}

async fn status(bench: &Bench, method: &str, target: &str) -> u16 {
    let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    raw_status(bench.gateway.address, &request).await
}

async fn one_budget(store: &str) {
    let bench = start(store).await;
    assert_eq!(status(&bench, "POST", "/api/login").await, 200);
    assert_eq!(status(&bench, "POST", "/API/LOGIN").await, 200);
    for same in [
        "/Api/Login",
        "/aPI/%4Cogin",
        "/api/login.",
        "/api/login../",
        "/api./LOGIN",
        "/api/login.;v=1",
    ] {
        assert_eq!(status(&bench, "POST", same).await, 429, "{same}");
        assert_eq!(status(&bench, "GET", same).await, 405, "{same}");
    }
    // What is forwarded is what came.
    let targets: Vec<_> = bench
        .upstream
        .requests()
        .iter()
        .map(|r| r.target.clone())
        .collect();
    assert_eq!(targets, ["/api/login", "/API/LOGIN"]);
    for other in ["/api/.login", "/api/log.in", "/api/login%20"] {
        assert_eq!(status(&bench, "POST", other).await, 404, "{other}");
    }
    // A route that says nothing goes by the letter.
    assert_eq!(status(&bench, "GET", "/exact/login").await, 404);
    assert_eq!(status(&bench, "GET", "/Exact/login.").await, 404);
    assert_eq!(status(&bench, "GET", "/Exact/login").await, 429);
    bench.stop().await;
}

#[tokio::test]
async fn letters_of_either_case_and_dots_at_the_end_are_one_route_and_one_budget() {
    on_both_stores(one_budget).await;
}

async fn one_value(store: &str) {
    let bench = start(store).await;
    assert_eq!(status(&bench, "GET", "/otp/Abc%3Bd").await, 200);
    for same in ["/otp/abc%3bD", "/OTP/ABC%3BD.", "/otp/%41bc%3Bd.."] {
        assert_eq!(status(&bench, "GET", same).await, 429, "{same}");
    }
    assert_eq!(status(&bench, "GET", "/otp/abd").await, 200);
    // Dots alone are a name.
    assert_eq!(status(&bench, "GET", "/otp/...").await, 200);
    assert_eq!(status(&bench, "GET", "/otp/....").await, 200);
    bench.stop().await;
}

#[tokio::test]
async fn a_value_in_such_a_path_is_counted_in_one_spelling() {
    on_both_stores(one_value).await;
}

#[tokio::test]
async fn a_prefix_is_stripped_in_any_case() {
    let bench = start("").await;
    assert_eq!(status(&bench, "GET", "/APP/Files/A%2fB").await, 200);
    let seen = bench.upstream.requests().pop().unwrap();
    assert_eq!(seen.target, "/Files/A%2FB");
    bench.stop().await;
}

#[test]
fn explain_says_that_case_does_not_count() {
    let yaml = "
limits: { login: { fixed_window: { limit: 2, window: 1h } } }
routes:
  - { name: login, path: /api/login, upstream: http://h, limits: [login], case_insensitive: true }
  - { name: exact, path: /**, upstream: http://h }
";
    let (folder, _file) = written(yaml);
    let explain = |path: &str| explained(&folder, &["GET", path]).join("\n");
    let text = explain("/API/Login.");
    assert!(
        text.contains("route:    login, in letters of either case"),
        "{text}"
    );
    assert!(explain("/api/other").contains("route:    exact"));
}
