//! Pages of other origins. Their preflights are limited and then answered by the gateway. What browsers need to let a script read
//! stands on every answer of a route with `cors`, whoever gave it.

mod explain;

use http::{Method, Response, StatusCode};
use tidegate_testkit::{Answer, Client, Port, Upstream, body};

use crate::callers::listed;
use crate::kit::{Bench, number, on_both_stores, sample, send};
use crate::support::TestGateway;

const APP: &str = "https://app.example.com";
const STRANGER: &str = "https://evil.example";
const EXPOSED: &str = "retry-after, x-request-id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset, x-kind";

/// The headers by which browsers are told.
const TOLD: [&str; 7] = [
    "vary",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "access-control-expose-headers",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
];

const CORS: &str = "cors: { origins: [https://app.example.com, https://*.example.org], \
    headers: [X-API-Key, Content-Type], expose: [X-Kind, Retry-After], credentials: true, max_age: 10m }";

/// A client that knows these headers, too.
fn page(gateway: &TestGateway) -> Client {
    let client = Client::new(gateway.address).knows("www-authenticate");
    TOLD.into_iter().fold(client, Client::knows)
}

async fn preflight(client: &Client, target: &str, origin: &str, method: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "x-api-key"),
    ];
    send(client, Method::OPTIONS, target, &headers).await
}

/// What an answer tells browsers, in the order of [`TOLD`].
fn told(answer: &Answer) -> [Option<&str>; 7] {
    TOLD.map(|name| answer.header(name))
}

/// What every answer to a page of an origin that is listed tells, but those to preflights.
fn readable(origin: &str) -> [Option<&str>; 7] {
    let [vary, yes, exposed] = ["Origin", "true", EXPOSED].map(Some);
    [vary, Some(origin), yes, exposed, None, None, None]
}

/// What all others do.
const UNREADABLE: [Option<&str>; 7] = [Some("Origin"), None, None, None, None, None, None];

#[tokio::test]
async fn preflights_are_charged_and_then_answered_and_refusals_can_be_read() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits:
  it: {{ fixed_window: {{ limit: 3, window: 31d }} }}
routes:
  - {{ name: app, path: /**, methods: [POST], upstream: UPSTREAM, limits: [it], {CORS} }}
"
        ))
        .await;
        let client = page(&bench.gateway);
        let answer = preflight(&client, "/", APP, "POST").await;
        assert_eq!((answer.status.as_u16(), answer.text()), (204, ""));
        assert_eq!(number(&answer, "x-ratelimit-remaining"), Some(2));
        let [vary, origin, yes] = ["Origin", APP, "true"].map(Some);
        let [methods, headers, age] = ["POST", "x-api-key, content-type", "600"].map(Some);
        assert_eq!(
            told(&answer),
            [vary, origin, yes, None, methods, headers, age]
        );
        assert_eq!(bench.upstream.count(), 0);

        let below = "https://a.b.example.org";
        for origin in [APP, below] {
            let answer = send(&client, Method::POST, "/", &[("origin", origin)]).await;
            assert_eq!(answer.status, 200);
            assert_eq!(told(&answer), readable(origin));
        }
        for _ in 0..2 {
            let answer = send(&client, Method::POST, "/", &[("origin", APP)]).await;
            assert_eq!(answer.status, 429);
            assert_eq!(told(&answer), readable(APP));
            assert!(number(&answer, "retry-after").is_some());
        }
        let flood = preflight(&client, "/", APP, "POST").await;
        assert_eq!(flood.status, 429);
        assert_eq!(bench.upstream.count(), 2);
        for (outcome, status, count) in [
            ("preflight", "2xx", 1),
            ("forwarded", "2xx", 2),
            ("limited", "4xx", 3),
        ] {
            let labels = format!("route=\"app\",outcome=\"{outcome}\",status=\"{status}\"");
            let name = format!("tidegate_requests_total{{{labels}}}");
            assert_eq!(sample(bench.gateway.admin, &name).await, count, "{outcome}");
        }
        bench.stop().await;
    })
    .await;
}

/// A browser sends no key with a preflight, so it is the address's, and the key's budget is whole.
#[tokio::test]
async fn preflights_count_by_address() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
clients: [{{ api_key: {{ keys: [{}], unknown: reject }} }}, {{ ip: {{}} }}]
limits: {{ it: {{ fixed_window: {{ limit: 2, window: 31d }} }} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [it], {CORS} }}]
",
            listed("alpha")
        ))
        .await;
        let client = page(&bench.gateway);
        for status in [204, 204, 429] {
            let answer = preflight(&client, "/", APP, "PUT").await;
            assert_eq!(answer.status, status);
        }
        let keyed = [("origin", APP), ("x-api-key", "alpha-key")];
        let answer = send(&client, Method::PUT, "/", &keyed).await;
        assert_eq!(answer.status, 200);
        assert_eq!(number(&answer, "x-ratelimit-remaining"), Some(1));
        let wrong = [("origin", APP), ("x-api-key", "wrong")];
        let answer = send(&client, Method::PUT, "/", &wrong).await;
        assert_eq!(
            (answer.status.as_u16(), told(&answer)),
            (401, readable(APP))
        );
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn pages_that_are_not_listed_are_told_nothing() {
    let bench = Bench::start(&format!(
        "routes: [{{ path: /**, upstream: UPSTREAM, {CORS} }}]"
    ))
    .await;
    let client = page(&bench.gateway);
    for origin in [STRANGER, "null", "http://app.example.com"] {
        let answer = preflight(&client, "/", origin, "GET").await;
        assert_eq!((answer.status.as_u16(), told(&answer)), (204, UNREADABLE));
        let answer = send(&client, Method::GET, "/", &[("origin", origin)]).await;
        assert_eq!((answer.status.as_u16(), told(&answer)), (200, UNREADABLE));
    }
    // Nor who comes from no page; a cache must not give their answer to those who do.
    let answer = send(&client, Method::GET, "/", &[]).await;
    assert_eq!((answer.status.as_u16(), told(&answer)), (200, UNREADABLE));
    bench.stop().await;
}

#[tokio::test]
async fn any_origin_is_told_the_same() {
    let bench =
        Bench::start("routes: [{ path: /**, upstream: UPSTREAM, cors: { origins: [\"*\"] } }]")
            .await;
    let client = page(&bench.gateway);
    let exposed = EXPOSED.strip_suffix(", x-kind");
    for headers in [&[("origin", STRANGER)][..], &[]] {
        let answer = send(&client, Method::GET, "/", headers).await;
        let expected = [None, Some("*"), None, exposed, None, None, None];
        assert_eq!(told(&answer), expected);
    }
    let answer = preflight(&client, "/", STRANGER, "DELETE").await;
    let methods = Some("GET, HEAD, POST");
    assert_eq!(
        told(&answer),
        [None, Some("*"), None, None, methods, None, None]
    );
    bench.stop().await;
}

#[tokio::test]
async fn what_the_upstream_says_of_origins_is_replaced() {
    for (vary, expected) in [
        ("Accept", "Accept, Origin"),
        ("accept, origin", "accept, origin"),
        ("*", "*"),
    ] {
        let upstream = Upstream::start(move |_| async move {
            let answer = Response::builder().header("vary", vary);
            let answer = answer
                .header("access-control-allow-origin", "*")
                .header("access-control-allow-private-network", "true")
                .header("access-control-max-age", "1");
            answer.body(body::empty()).unwrap()
        });
        let url = upstream.url();
        let yaml = format!("routes: [{{ path: /**, upstream: \"{url}\", {CORS} }}]");
        let gateway = TestGateway::start(&yaml).await;
        let client = page(&gateway);
        for (origin, told_it) in [(APP, readable(APP)), (STRANGER, UNREADABLE)] {
            let answer = send(&client, Method::GET, "/", &[("origin", origin)]).await;
            assert_eq!(answer.header("vary"), Some(expected));
            assert_eq!(told(&answer)[1..], told_it[1..], "{origin}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_gateways_own_answers_can_be_read() {
    let nobody = Port::reserve();
    let yaml = format!(
        "
trusted_proxies: [127.0.0.1]
limits:
  dear: {{ fixed_window: {{ limit: 2, window: 31d }}, cost: {{ header: X-Cost, max: 9 }} }}
routes: [{{ path: /**, upstream: \"http://{}\", limits: [dear], max_body: 1, {CORS} }}]
",
        nobody.addr()
    );
    let gateway = TestGateway::start(&yaml).await;
    let client = page(&gateway);
    for (more, status) in [
        (("x-cost", "9"), StatusCode::BAD_REQUEST),
        (("x-kind", ""), StatusCode::BAD_GATEWAY),
        (("content-length", "2"), StatusCode::PAYLOAD_TOO_LARGE),
        (("x-kind", ""), StatusCode::TOO_MANY_REQUESTS),
    ] {
        let request = http::Request::post("/").header("origin", APP);
        let request = match more.0 {
            "content-length" => request.body(body::full("xx")),
            name => request.header(name, more.1).body(body::empty()),
        };
        let answer = client.request(request.unwrap()).await;
        assert_eq!((answer.status, told(&answer)), (status, readable(APP)));
    }
    gateway.stop().await;

    let closed = format!(
        "
store: {{ redis: {{ url: \"redis://{}\", on_failure: closed }} }}
limits: {{ it: {{ fixed_window: {{ limit: 2, window: 31d }} }} }}
routes: [{{ path: /**, upstream: \"http://{0}\", limits: [it], {CORS} }}]
",
        nobody.addr()
    );
    let gateway = TestGateway::start(&closed).await;
    let answer = send(&page(&gateway), Method::GET, "/", &[("origin", APP)]).await;
    let read = readable(APP);
    assert_eq!((answer.status.as_u16(), told(&answer)), (503, read));
    gateway.stop().await;
}

/// A route does not answer for another one that the request itself would take.
#[tokio::test]
async fn a_preflight_takes_the_route_of_what_it_asks_about() {
    let bench = Bench::start(&format!(
        "
routes:
  - {{ path: /none, methods: [POST], upstream: UPSTREAM }}
  - {{ path: /own/**, methods: [PUT], upstream: UPSTREAM, redirect: https, {CORS} }}
  - {{ path: /own/**, methods: [GET], upstream: UPSTREAM }}
  - {{ path: /none, upstream: UPSTREAM, {CORS} }}
"
    ))
    .await;
    let client = page(&bench.gateway);
    let asked = async |target: &str, method: &str| {
        let answer = preflight(&client, target, APP, method).await;
        let upstream_saw = bench.upstream.count();
        let methods = answer.header("access-control-allow-methods");
        (
            answer.status.as_u16(),
            methods.map(str::to_owned),
            upstream_saw,
        )
    };
    let puts = Some("PUT".to_owned());
    assert_eq!(asked("/own/x", "PUT").await, (204, puts, 0));
    assert_eq!(asked("/own/x", "GET").await, (405, None, 0));
    assert_eq!(asked("/own/x", "no method").await, (405, None, 0));
    // The upstream answers what nobody else does; the last route only says who may read that.
    assert_eq!(asked("/none", "POST").await, (200, None, 1));
    let simple = Some("GET, HEAD, POST".to_owned());
    assert_eq!(asked("/none", "GET").await, (204, simple, 1));
    // OPTIONS alone are no preflight.
    let answer = send(&client, Method::OPTIONS, "/own/x", &[("origin", APP)]).await;
    assert_eq!(answer.status, 405);
    bench.stop().await;
}
