//! Routes that take requests by their query and headers.

use http::{Method, Request};
use tidegate_testkit::{Client, body};

use crate::callers::at;
use crate::kit::{Bench, get, on_both_stores, send};

/// Live requests of version 2 have a budget of 1, other live ones of 2, and all others of 3.
async fn bench(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
limits:
  one: {{ fixed_window: {{ limit: 1, window: 31d }} }}
  two: {{ fixed_window: {{ limit: 2, window: 31d }} }}
  three: {{ fixed_window: {{ limit: 3, window: 31d }} }}
routes:
  - name: second
    path: /v1/**
    query: {{ mode: live }}
    request_has: {{ X-Api-Version: 2 }}
    upstream: UPSTREAM
    limits: [one]
  - {{ name: live, path: /v1/**, query: {{ mode: live }}, methods: [GET], upstream: UPSTREAM, limits: [two] }}
  - {{ name: rest, path: /v1/**, methods: [GET, PUT], upstream: UPSTREAM, limits: [three] }}
  - {{ name: posted, path: /posted, query: {{ mode: live }}, methods: [POST], upstream: UPSTREAM, limits: [one] }}
"
    ))
    .await
}

async fn by_what_they_say(store: &str) {
    let bench = bench(store).await;
    let version = [("x-api-version", "2")];
    let limit = async |target: &str, headers: &[(&str, &str)]| {
        let answer = send(&bench.client, Method::GET, target, headers).await;
        let limit = answer.header("x-ratelimit-limit").map(str::to_owned);
        (answer.status.as_u16(), limit.unwrap_or_default())
    };
    let of = |status, limit: &str| (status, limit.to_owned());
    assert_eq!(limit("/v1/a?mode=live", &version).await, of(200, "1"));
    assert_eq!(limit("/v1/b?x=y&mod%65=live", &version).await, of(429, "1"));
    assert_eq!(limit("/v1/a?mode=live", &[]).await, of(200, "2"));
    let third = [("x-api-version", "3")];
    assert_eq!(limit("/v1/a?mode=live", &third).await, of(200, "2"));
    assert_eq!(limit("/v1/a?mode=live", &[]).await, of(429, "2"));
    assert_eq!(limit("/v1/a?mode=test", &version).await, of(200, "3"));
    assert_eq!(limit("/v1/a", &version).await, of(200, "3"));
    assert_eq!(limit("/v1/a?Mode=live", &[]).await, of(200, "3"));
    assert_eq!(limit("/v1/a", &[]).await, of(429, "3"));
    bench.stop().await;
}

#[tokio::test]
async fn a_route_takes_requests_by_what_they_say() {
    on_both_stores(by_what_they_say).await;
}

/// An upstream may read either value, so neither route's limits would hold.
#[tokio::test]
async fn a_request_that_may_be_meant_for_two_routes_is_refused() {
    let bench = bench("").await;
    let client = at(&bench, 2);
    for target in ["/v1/a?mode=live&mode=test", "/v1/a?mode=test&mode=live"] {
        let answer = send(&client, Method::GET, target, &[]).await;
        assert_eq!(answer.status, 400, "{target}");
        assert!(answer.text().contains("ambiguous_request"), "{answer:?}");
    }
    let twice = [("x-api-version", "1"), ("x-api-version", "2")];
    assert_eq!(get(&client, "/v1/a?mode=live", &twice).await, 400);
    // No route asks for these values.
    assert_eq!(get(&client, "/v1/a?mode=a&mode=b", &[]).await, 200);
    assert_eq!(get(&client, "/v1/a?x=1&x=2", &[]).await, 200);
    assert_eq!(
        get(&client, "/v1/a", &twice).await,
        200,
        "the query decides"
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_method_is_refused_by_routes_that_take_the_rest_of_the_request() {
    let bench = bench("").await;
    let allow = async |method: Method, target: &str| {
        let answer = send(&bench.client, method, target, &[]).await;
        let allow = answer.header("allow").map(str::to_owned);
        (answer.status.as_u16(), allow.unwrap_or_default())
    };
    let refused = |allow: &str| (405, allow.to_owned());
    let delete = allow(Method::DELETE, "/v1/a").await;
    assert_eq!(delete, refused("GET, PUT, HEAD"));
    assert_eq!(
        allow(Method::GET, "/posted?mode=live").await,
        refused("POST")
    );
    assert_eq!(allow(Method::GET, "/posted").await.0, 404);
    assert_eq!(allow(Method::POST, "/posted?mode=live").await.0, 200);
    bench.stop().await;
}

/// The upstream sees the header by which the route was chosen, and no other that it could take for that.
#[tokio::test]
async fn no_other_spelling_of_a_header_reaches_an_upstream() {
    let bench = bench("").await;
    let spelled = [("x_api_version", "2"), ("x.api.version", "2")];
    assert_eq!(get(&bench.client, "/v1/a?mode=live", &spelled).await, 200);
    let named = [("x-api-version", "2"), ("connection", "x-api-version")];
    assert_eq!(get(&bench.client, "/v1/a?mode=live", &named).await, 200);
    let seen = bench.upstream.requests();
    let versions = |at: usize| {
        let names = seen[at].headers.keys().map(http::HeaderName::as_str);
        let names = names.filter(|name| name.contains("version"));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(versions(0).is_empty(), "{:?}", seen[0]);
    assert_eq!(versions(1), ["x-api-version"]);
    bench.stop().await;
}

/// Browsers send no header of the request when they ask about it, but its name.
#[tokio::test]
async fn a_preflight_takes_the_route_whose_header_it_names() {
    let bench = Bench::start(
        "
limits:
  own: { fixed_window: { limit: 9, window: 31d } }
routes:
  - name: second
    path: /v1
    request_has: { X-Api-Version: 2 }
    upstream: UPSTREAM
    limits: [own]
    cors: { origins: [\"https://second.example\"], headers: [X-Api-Version] }
  - { name: rest, path: /v1, upstream: UPSTREAM, limits: [own], cors: { origins: [\"https://rest.example\"] } }
",
    )
    .await;
    let headers = [
        "vary",
        "access-control-allow-origin",
        "access-control-allow-methods",
        "access-control-allow-headers",
    ];
    let client = headers
        .into_iter()
        .fold(Client::new(bench.gateway.address), Client::knows);
    for (origin, named, allowed) in [
        (
            "https://second.example",
            Some("content-type, X-API-Version"),
            true,
        ),
        ("https://rest.example", Some("x-api-version"), false),
        ("https://second.example", None, false),
        ("https://rest.example", None, true),
    ] {
        let mut request = Request::builder()
            .method(Method::OPTIONS)
            .uri("/v1")
            .header("origin", origin)
            .header("access-control-request-method", "GET");
        if let Some(named) = named {
            request = request.header("access-control-request-headers", named);
        }
        let answer = client.request(request.body(body::empty()).unwrap()).await;
        assert_eq!(answer.status, 204);
        let told = answer.header("access-control-allow-origin");
        assert_eq!(told, Some(origin).filter(|_| allowed), "{origin} {named:?}");
    }
    bench.stop().await;
}
