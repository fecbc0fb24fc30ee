//! `/v1/ask`: questions of proxies.

use http::{Method, Request};
use tidegate_testkit::{Client, body};

use crate::kit::*;

const YAML_OF_HASH: &str = "
clients: [{ api_key: { header: X-API-Key, keys: [{ name: acme, hash: \"sha256:HASH\" }], unknown: reject } }, ip: {}]
trusted_proxies: [127.0.0.1]
limits:
  calls: { fixed_window: { limit: 2, window: 31d } }
  dropping: { fixed_window: { limit: 1, window: 31d }, action: drop }
  always: { fixed_window: { limit: 1000, window: 31d }, per: [] }
  reserved: { fixed_window: { limit: 10, window: 31d }, cost: { response_header: X-Cost, reserve: 4 } }
always: [always]
routes:
  - { name: drops, host: drops.example, path: /**, upstream: UPSTREAM, limits: [dropping] }
  - { name: costs, path: /costs, upstream: UPSTREAM, limits: [reserved] }
  - { name: posts, path: \"/api/{id}\", methods: [POST], upstream: UPSTREAM, limits: [calls] }
";

const KEY: &str = "acme-key-that-is-long-enough-0001";

/// The configuration, with the hash of the key.
fn yaml() -> String {
    let hash = tidegate_identity::api_keys::hash(KEY.as_bytes());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    YAML_OF_HASH.replace("HASH", &hash)
}

/// The headers of Traefik and Caddy, of nginx as our example sets them, and of ingress-nginx.
const FORMS: [&[(&str, &str)]; 3] = [
    &[
        ("x-forwarded-method", "POST"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "api.example"),
        ("x-forwarded-uri", "/api/7?a=b"),
    ],
    &[
        ("x-original-method", "POST"),
        ("x-original-uri", "/api/7?a=b"),
    ],
    &[
        ("x-original-method", "POST"),
        ("x-original-url", "https://api.example/api/7?a=b"),
    ],
];

#[tokio::test]
async fn each_form_of_the_question_is_decided_as_the_request_would_be() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{}", yaml())).await;
        for (nth, form) in FORMS.iter().enumerate() {
            let address = format!("192.0.2.{nth}");
            let mut headers = form.to_vec();
            headers.push(("x-forwarded-for", &address));
            let mut statuses = Vec::new();
            for _ in 0..3 {
                let answer = doors.ask(&headers).await;
                assert_eq!(answer.header("x-ratelimit-limit"), Some("2"), "{form:?}");
                statuses.push(answer.status.as_u16());
            }
            assert_eq!(statuses, [200, 200, 429], "{form:?}");
            let refused = doors.ask(&headers).await;
            assert!(refused.header("retry-after").is_some());
            assert_eq!(json_of(&refused)["error"], "rate_limit_exceeded");
        }
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn envoy_asks_by_the_path_behind_the_prefix() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{}", yaml())).await;
        let door = doors.gateway.decisions.unwrap();
        for client in [Client::new(door), Client::h2(door)] {
            let address = format!("192.0.2.{}", client.connections() + fastrand_octet());
            let headers = [
                ("x-forwarded-for", address.as_str()),
                ("host", "api.example"),
            ];
            let mut statuses = Vec::new();
            for _ in 0..3 {
                let answer =
                    send(&client, Method::POST, "/v1/ask/api/7?refuse=403", &headers).await;
                statuses.push(answer.status.as_u16());
            }
            assert_eq!(statuses, [200, 200, 429]);
        }
        doors.stop().await;
    })
    .await;
}

/// A number that differs at each call.
fn fastrand_octet() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(10);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[tokio::test]
async fn nginx_gets_refusals_as_403_with_the_real_status() {
    let doors = Doors::start("", &format!("store: memory\n{}", yaml())).await;
    let ask = async |more: &[(&str, &str)]| {
        let mut headers = FORMS[0].to_vec();
        headers.extend(more);
        let answer = send(&doors.program, Method::GET, "/v1/ask?refuse=403", &headers).await;
        let real = answer.header("x-refused-status").map(str::to_owned);
        (answer.status.as_u16(), real)
    };
    let client = [("x-forwarded-for", "192.0.2.1")];
    for _ in 0..2 {
        assert_eq!(ask(&client).await, (200, None));
    }
    assert_eq!(ask(&client).await, (403, Some("429".to_owned())));
    // nginx passes 401 on.
    assert_eq!(ask(&[("x-api-key", "wrong")]).await, (401, None));
    // A question that names no request is refused in the same form.
    let answer = doors.program.get("/v1/ask?refuse=403").await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("x-refused-status"), Some("400"));
    // nginx would close its connection after a refusal with a body. Caddy adds the query of the client's request.
    let mut headers = FORMS[0].to_vec();
    headers.extend(client);
    for (query, status, has_body) in [
        ("refuse=403", 403, false),
        ("x=1&refuse=403", 403, false),
        ("refuse=500&x", 429, true),
    ] {
        let target = format!("/v1/ask?{query}");
        let answer = send(&doors.program, Method::GET, &target, &headers).await;
        assert_eq!(
            (answer.status.as_u16(), !answer.body.is_empty()),
            (status, has_body)
        );
    }
    doors.stop().await;
}

#[tokio::test]
async fn a_client_is_named_by_its_own_credentials() {
    let doors = Doors::start("", &format!("store: memory\n{}", yaml())).await;
    let mut headers = FORMS[0].to_vec();
    headers.push(("x-api-key", KEY));
    for (address, status) in [("192.0.2.1", 200), ("192.0.2.2", 200), ("192.0.2.3", 429)] {
        headers.push(("x-forwarded-for", address));
        assert_eq!(doors.ask(&headers).await.status, status);
        headers.pop();
    }
    // The same client through the proxy.
    let request = Request::post("/api/7").header("x-api-key", KEY);
    let answer = doors
        .client
        .request(request.body(body::empty()).unwrap())
        .await;
    assert_eq!(answer.status, 429);
    doors.stop().await;
}

#[tokio::test]
async fn requests_without_a_route_here_are_charged_to_always_and_pass() {
    let doors = Doors::start("", &format!("store: memory\n{}", yaml())).await;
    for (method, target) in [("GET", "/elsewhere"), ("GET", "/api/7")] {
        let headers = [("x-forwarded-method", method), ("x-forwarded-uri", target)];
        let answer = doors.ask(&headers).await;
        assert_eq!(answer.status, 200, "{method} {target}");
    }
    let looked = doors.look("limit=always").await;
    assert_eq!(looked["limits"][0]["remaining"], 998);
    doors.stop().await;
}

/// Some proxies pass on `X-Original-*` of their clients.
#[tokio::test]
async fn headers_of_the_proxy_come_before_those_of_its_client() {
    let doors = Doors::start("", &format!("store: memory\n{}", yaml())).await;
    let mut headers = FORMS[0].to_vec();
    headers.extend([
        ("x-original-method", "a b"),
        ("x-original-uri", "/elsewhere"),
        ("x-original-url", "no url"),
        ("x-forwarded-for", "192.0.2.77"),
    ]);
    for status in [200, 200, 429] {
        assert_eq!(doors.ask(&headers).await.status, status);
    }
    doors.stop().await;
}

#[tokio::test]
async fn what_describes_no_request_is_an_error() {
    let doors = Doors::start("", &format!("store: memory\n{}", yaml())).await;
    for (headers, error) in [
        (&[][..], "no_original_request"),
        (&[("x-forwarded-method", "POST")], "no_original_request"),
        (&[("x-forwarded-uri", "/a b")], "bad_original_request"),
        (&[("x-forwarded-uri", "nothing")], "bad_original_request"),
        (
            &[("x-forwarded-uri", "/"), ("x-forwarded-uri", "/api/7")],
            "bad_original_request",
        ),
        (
            &[("x-forwarded-uri", "/"), ("x-forwarded-method", "a b")],
            "bad_original_request",
        ),
        (
            &[("x-forwarded-uri", "/"), ("x-forwarded-host", "a/b")],
            "bad_host",
        ),
        (&[("x-forwarded-uri", "/api%2F7")], "bad_path"),
    ] {
        let answer = doors.ask(headers).await;
        assert_eq!(answer.status, 400, "{headers:?}");
        assert_eq!(json_of(&answer)["error"], error, "{headers:?}");
    }
    doors.stop().await;
}

#[tokio::test]
async fn a_limit_that_drops_answers_a_proxy_that_asks() {
    let doors = Doors::start("", &format!("store: memory\n{}", yaml())).await;
    let headers = [
        ("x-forwarded-uri", "/"),
        ("x-forwarded-host", "drops.example"),
    ];
    assert_eq!(doors.ask(&headers).await.status, 200);
    assert_eq!(doors.ask(&headers).await.status, 429);
    doors.stop().await;
}

#[tokio::test]
async fn a_cost_in_the_answer_is_charged_as_reserved() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{}", yaml())).await;
        let headers = [
            ("x-forwarded-uri", "/costs"),
            ("x-forwarded-for", "192.0.2.1"),
        ];
        for _ in 0..2 {
            assert_eq!(doors.ask(&headers).await.status, 200);
        }
        assert_eq!(doors.ask(&headers).await.status, 429);
        let looked = doors
            .look("limit=reserved&client=ip:192.0.2.1&cost=2")
            .await;
        assert_eq!(looked["limits"][0]["remaining"], 2, "{looked}");
        doors.stop().await;
    })
    .await;
}

const SHARED: &str = "
secret: the same for all
clients: [{ user_id: {} }, { ip: {} }]
trusted_proxies: [127.0.0.1]
limits:
  pool: { token_bucket: { capacity: 100, refill: 1/h }, per: [], share: { by: [client] } }
routes:
  - { path: /**, upstream: UPSTREAM, limits: [pool] }
";

/// A question is decided with the shares of a limit, as the request would be. Questions and requests use one share.
#[tokio::test]
async fn a_question_uses_the_share_of_its_member() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{SHARED}")).await;
        let ask = async |user| {
            let headers = [("x-original-uri", "/"), ("x-user-id", user)];
            doors.ask(&headers).await
        };
        let get = async |user| {
            let answer = send(&doors.client, Method::GET, "/", &[("x-user-id", user)]).await;
            answer.status.as_u16()
        };
        for _ in 0..40 {
            assert_eq!(ask("greedy").await.status, 200);
            assert_eq!(get("greedy").await, 200);
        }
        // Twenty are left, and the level is 8 x 100 x 0.19^2 = 28.9. The first 51 requests are not counted.
        let refused = ask("greedy").await;
        assert_eq!(refused.status, 429);
        let violated = &json_of(&refused)["violated-policies"];
        assert_eq!(violated, &serde_json::json!(["pool/share"]));
        assert_eq!(get("greedy").await, 429);
        assert_eq!(ask("other").await.status, 200);
        doors.stop().await;
    })
    .await;
}
