use std::net::Ipv4Addr;

use http::Method;
use tidegate_testkit::{Answer, Client};

use crate::callers::{ask, at, listed};
use crate::kit::{
    Bench, get, number, on_both_stores, raw_status, send, shown, tells_of_limits, told,
};

/// One admitted request per what `per` says, on a route for everything.
async fn once(store: &str, path: &str, per: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
limits:
  once: {{ fixed_window: {{ limit: 1, window: 31d }}, per: {per} }}
routes:
  - {{ path: \"{path}\", upstream: UPSTREAM, limits: [once] }}
"
    ))
    .await
}

/// The status of a request target that no client library would send.
async fn raw(bench: &Bench, target: &str) -> u16 {
    let request = format!("GET {target} HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
    raw_status(bench.gateway.address, &request).await
}

async fn paths(store: &str) {
    let bench = once(store, "/api/login", "[ip]").await;
    assert_eq!(raw(&bench, "/api/login").await, 200);
    let long = format!("/api/login?{}", "x".repeat(60 * 1024));
    for (variant, statuses) in [
        ("/api//login", &[429][..]),
        ("/api/./login", &[429]),
        ("/api/x/../login", &[429]),
        ("/x/%2e%2e/api/login", &[429]),
        ("/api/%6cogin", &[429]),
        ("/%61pi/login", &[429]),
        ("/api/login/", &[429]),
        ("/api/login?x=1", &[429]),
        ("/api/login?x=2", &[429]),
        ("http://api.example.com/api/login", &[429]),
        ("//api/login", &[429, 404]),
        ("/api%2flogin", &[400]),
        ("/api%5clogin", &[400]),
        ("/api\\login", &[400]),
        ("/api/login%00", &[400]),
        ("/api/login%zz", &[400]),
        ("/api/login#f", &[400, 429]),
        ("/API/login", &[404]),
        ("/api/login;v=1", &[429, 404, 400]),
        ("/api/login%0a", &[404, 400]),
        ("/api/login%20", &[404, 400]),
        ("/api/login%c0%af", &[404, 400]),
        ("/api/login%252f", &[404, 400]),
        ("/api/login%3fx", &[404, 400]),
        (&long, &[414, 431]),
    ] {
        let status = raw(&bench, variant).await;
        let shown: String = variant.chars().take(40).collect();
        assert!(statuses.contains(&status), "{shown}: {status}");
    }
    assert_eq!(bench.upstream.count(), 1, "none of them passes");
    bench.stop().await;
}

#[tokio::test]
async fn b7_a_path_is_limited_in_every_spelling_or_goes_nowhere() {
    on_both_stores(paths).await;
}

async fn path_values(store: &str) {
    let bench = once(store, "/users/{id}/rides", "[\"path:id\"]").await;
    assert_eq!(raw(&bench, "/users/a%7Eb/rides").await, 200);
    for same in [
        "/users/a~b/rides",
        "/users/%61~b/rides",
        "/users//a~b/./rides/",
        "/users/x/../a%7eb/rides?y",
    ] {
        assert_eq!(raw(&bench, same).await, 429, "{same}");
    }
    assert_eq!(raw(&bench, "/users/A~b/rides").await, 200);
    assert_eq!(raw(&bench, "/users/%c3%a9/rides").await, 200);
    assert_eq!(raw(&bench, "/users/%C3%A9/rides").await, 429);
    bench.stop().await;
}

#[tokio::test]
async fn b7_a_value_in_a_path_is_one_in_every_spelling() {
    on_both_stores(path_values).await;
}

async fn methods(store: &str) {
    let bench = once(store, "/**", "[method]").await;
    let client = &bench.client;
    let method = |name: &str| Method::from_bytes(name.as_bytes()).unwrap();
    for (name, status) in [
        ("GET", 200),
        ("HEAD", 429),
        ("OPTIONS", 200),
        ("OPTIONS", 429),
        // All that a client may invent is one budget, so inventing leads nowhere.
        ("BREW", 200),
        ("M-SEARCH", 429),
        ("TRACE", 405),
        // No upstream is left to choose whether these are the methods above.
        ("get", 400),
        ("Get", 400),
        ("head", 400),
        ("post", 400),
        ("POST", 200),
        ("POST", 429),
    ] {
        let answer = send(client, method(name), "/", &[]).await;
        assert_eq!(answer.status, status, "{name}");
    }
    for header in [
        "x-http-method-override",
        "x-method-override",
        "x-http-method",
        "x_http_method_override",
    ] {
        let override_it = [(header, "PATCH")];
        let answer = send(client, Method::POST, "/?_method=PATCH", &override_it).await;
        assert_eq!(answer.status, 429, "{header}");
    }
    assert_eq!(send(client, Method::PATCH, "/", &[]).await.status, 200);
    bench.stop().await;
}

#[tokio::test]
async fn b8_no_method_and_no_word_for_one_gets_a_second_budget() {
    on_both_stores(methods).await;
}

/// Upstreams such as Flask serve `post` as `POST`. The route of the login must not be passed by another spelling.
async fn spelled_methods(store: &str) {
    let bench = Bench::start(&format!(
        "
{store}
limits:
  guard: {{ fixed_window: {{ limit: 8, window: 31d }}, per: [ip] }}
  guesses: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [ip] }}
always: [guard]
routes:
  - {{ path: /login, methods: [POST], upstream: UPSTREAM, limits: [guesses] }}
  - {{ path: /**, upstream: UPSTREAM }}
"
    ))
    .await;
    for (host, spelling) in [(2, "post"), (3, "Post"), (4, "pOST"), (5, "x-post")] {
        let (http1, http2) = (at(&bench, host), Client::h2(bench.gateway.address));
        let http2 = http2.from_ip(Ipv4Addr::new(127, 0, 0, host));
        let method = Method::from_bytes(spelling.as_bytes()).unwrap();
        for client in [&http1, &http2] {
            for _ in 0..4 {
                let answer = send(client, method.clone(), "/login", &[]).await;
                assert_eq!(answer.status, 400, "{spelling}");
                let problem: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
                assert_eq!(problem["error"], "bad_method");
            }
        }
        // They are charged to what is always charged.
        let answer = send(&http1, method, "/login", &[]).await;
        assert_eq!(answer.status, 429, "{spelling}");
    }
    assert_eq!(bench.upstream.count(), 0);
    bench.stop().await;
}

#[tokio::test]
async fn b8_a_method_in_small_letters_reaches_no_upstream() {
    on_both_stores(spelled_methods).await;
}

async fn preflight(store: &str) {
    let bench = once(store, "/**", "[client]").await;
    let preflight = [
        ("origin", "https://example.com"),
        ("access-control-request-method", "GET"),
    ];
    for status in [200, 429] {
        let answer = send(&bench.client, Method::OPTIONS, "/", &preflight).await;
        assert_eq!(told(&answer), shown(status, 1, 0));
    }
    assert_eq!(get(&bench.client, "/", &[]).await, 429);
    bench.stop().await;
}

#[tokio::test]
async fn b8_a_preflight_is_charged_like_any_request() {
    on_both_stores(preflight).await;
}

/// `always` allows five requests of an address; a client has ten.
async fn guarded(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
clients: [{{ api_key: {{ unknown: reject, keys: [{}, {}] }} }}]
limits:
  guard: {{ fixed_window: {{ limit: 5, window: 31d }}, per: [ip] }}
  own: {{ fixed_window: {{ limit: 4, window: 31d }} }}
always: [guard]
routes:
  - {{ path: /api, upstream: UPSTREAM, limits: [own] }}
",
        listed("alpha"),
        listed("beta")
    ))
    .await
}

async fn guessing(store: &str) {
    let bench = guarded(store).await;
    let guesser = at(&bench, 2);
    for (guess, path) in ["/api", "/api", "/nowhere", "/api?x", "/api"]
        .into_iter()
        .enumerate()
    {
        let guess = format!("guess-{guess}");
        let answer = ask(&guesser, path, &[("x-api-key", &guess)]).await;
        assert_eq!(answer.status, 401, "{guess} at {path}");
        assert!(!tells_of_limits(&answer), "{answer:?}");
        assert_eq!(answer.header("retry-after"), None);
    }
    // The sixth guess is not even looked at, and the right key is no better.
    for key in ["guess-6", "alpha-key"] {
        let answer = ask(&guesser, "/api", &[("x-api-key", key)]).await;
        assert_eq!(told(&answer), shown(429, 5, 0), "{key}");
        assert!(number(&answer, "retry-after") > Some(0));
        assert_eq!(answer.header("www-authenticate"), None);
        let details: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(details["violated-policies"], serde_json::json!(["guard"]));
    }
    // Nobody else pays for that, and a refused key is charged to none but the guard.
    let owner = at(&bench, 3);
    let key = [("x-api-key", "alpha-key")];
    let answer: Answer = ask(&owner, "/api", &key).await;
    assert_eq!(told(&answer), shown(200, 4, 3));
    bench.stop().await;
}

#[tokio::test]
async fn b25_guessing_keys_is_limited_before_it_is_answered() {
    on_both_stores(guessing).await;
}

async fn own_numbers(store: &str) {
    let bench = guarded(store).await;
    let alpha = [("x-api-key", "alpha-key")];
    let beta = [("x-api-key", "beta-key")];
    for left in (1..=3).rev() {
        let answer = ask(&at(&bench, 2), "/api", &alpha).await;
        assert_eq!(told(&answer), shown(200, 4, left));
    }
    let answer = ask(&at(&bench, 3), "/api", &beta).await;
    assert_eq!(told(&answer), shown(200, 4, 3), "beta is told of alpha");
    // Without a key the address is the client; what alpha has left is none of its business.
    let answer = ask(&at(&bench, 4), "/api", &[]).await;
    assert_eq!(told(&answer), shown(200, 4, 3));
    bench.stop().await;
}

#[tokio::test]
async fn b25_the_headers_tell_of_the_callers_own_key_alone() {
    on_both_stores(own_numbers).await;
}
