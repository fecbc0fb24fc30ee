//! One client's budgets on the admin port: what is left, and begin anew. Who may ask stands in `admin_token`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Client, RedisServer};

use crate::callers::{TRUST, ask, listed};
use crate::kit::{Bench, exact, get_each, number, on_both_stores, send, told};

/// What it does not answer.
mod refused;

/// An answer of the admin port about a client.
async fn asked(admin: SocketAddr, method: Method, path: &str) -> Answer {
    send(&Client::fresh(admin), method, path, &[]).await
}

async fn show(bench: &Bench, name: &str) -> Value {
    let path = format!("/clients/{name}");
    report(&asked(bench.gateway.admin, Method::GET, &path).await)
}

async fn reset(bench: &Bench, name: &str) -> Value {
    let path = format!("/clients/{name}/reset");
    report(&asked(bench.gateway.admin, Method::POST, &path).await)
}

fn report(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    serde_json::from_str(answer.text()).unwrap()
}

/// Name, route if any, and what is left of each limit.
fn left(report: &Value) -> Vec<(String, u64)> {
    let limits = report["limits"].as_array().unwrap().iter();
    limits
        .map(|limit| {
            let name = limit["name"].as_str().unwrap();
            let name = match limit["route"].as_str() {
                Some(route) => format!("{name} on {route}"),
                None => name.to_owned(),
            };
            (name, limit["remaining"].as_u64().unwrap())
        })
        .collect()
}

fn these<const N: usize>(rows: [(&str, u64); N]) -> Vec<(String, u64)> {
    rows.map(|(name, left)| (name.to_owned(), left)).into()
}

/// Limits of every kind of budget.
async fn bench(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{TRUST}
clients:
  - api_key: {{ keys: [{}, {}] }}
  - user_id: {{}}
  - ip: {{ ipv6_prefix: 64 }}
limits:
  month: {{ fixed_window: {{ limit: 5, window: 31d }} }}
  slow: {{ token_bucket: {{ capacity: 3, refill: 1/31d }} }}
  each: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [client, route] }}
  address: {{ fixed_window: {{ limit: 2000, window: 31d }}, per: [ip] }}
  wide: {{ fixed_window: {{ limit: 3000, window: 31d }}, per: [ip/48] }}
  by-path: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [client, \"path:id\"] }}
  by-method: {{ fixed_window: {{ limit: 9, window: 31d }}, per: [client, method, host] }}
  all: {{ fixed_window: {{ limit: 1000, window: 31d }}, per: [] }}
  unused: {{ fixed_window: {{ limit: 7, window: 31d }} }}
always: [address, wide]
routes:
  - {{ name: a, path: /a, upstream: UPSTREAM, limits: [month, each, all] }}
  - {{ name: b, path: /b, upstream: UPSTREAM, limits: [slow, each, month] }}
  - {{ name: c, path: \"/c/{{id}}\", upstream: UPSTREAM, limits: [by-path, by-method] }}
",
        listed("alpha"),
        listed("beta"),
    ))
    .await
}

const ALPHA: (&str, &str) = ("x-api-key", "alpha-key");

#[tokio::test]
async fn a_client_may_go_on_if_the_cost_of_a_request_fits() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits:
  tokens: {{ fixed_window: {{ limit: 5, window: 31d }}, cost: {{ response_header: X-Cost, reserve: 3 }} }}
  exports: {{ fixed_window: {{ limit: 5, window: 31d }}, cost: 3 }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [tokens, exports] }}
"
        ))
        .await;
        let allowed = async || {
            let shown = show(&bench, "127.0.0.1").await;
            let limits = shown["limits"].as_array().unwrap();
            let of = |limit: &Value| (limit["remaining"].as_u64(), limit["allowed"] == true);
            limits.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(allowed().await, [(Some(5), true), (Some(5), true)]);
        assert_eq!(ask(&bench.client, "/", &[]).await.status, 200);
        assert_eq!(allowed().await, [(Some(2), false), (Some(2), false)]);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn it_says_what_the_headers_say_and_charges_nothing() {
    on_both_stores(async |store| {
        let bench = bench(store).await;
        get_each(&bench.client, 2, "/a", &[ALPHA], 200).await;
        let answer = ask(&bench.client, "/b", &[ALPHA]).await;
        assert_eq!(told(&answer), (200, Some(5), Some(2)));
        let shown = show(&bench, "api_key:alpha").await;
        assert_eq!(shown["client"], "api_key:alpha");
        let expected = these([
            ("month", 2),
            ("each on a", 7),
            ("slow", 2),
            ("each on b", 8),
        ]);
        assert_eq!(left(&shown), expected);
        let month = &shown["limits"][0];
        assert_eq!(month["algorithm"], "fixed_window");
        assert_eq!(month["per"], json!(["client"]));
        assert_eq!(month["limit"], 5);
        assert_eq!(
            month["reset"].as_u64(),
            number(&answer, "x-ratelimit-reset")
        );
        assert_eq!(
            (&month["allowed"], &month["retry_after"]),
            (&json!(true), &json!(0))
        );
        for _ in 0..3 {
            assert_eq!(left(&show(&bench, "api_key:alpha").await), expected);
        }
        let answer = ask(&bench.client, "/a", &[ALPHA]).await;
        assert_eq!(told(&answer), (200, Some(5), Some(1)));

        // To the end, and what a refusal says.
        assert_eq!(ask(&bench.client, "/a", &[ALPHA]).await.status, 200);
        let refused = ask(&bench.client, "/a", &[ALPHA]).await;
        assert_eq!(told(&refused), (429, Some(5), Some(0)));
        let month = &show(&bench, "api_key:alpha").await["limits"][0];
        assert_eq!(
            (&month["allowed"], &month["remaining"]),
            (&json!(false), &json!(0))
        );
        let wait = number(&refused, "retry-after").unwrap();
        let shown = month["retry_after"].as_u64().unwrap();
        assert!((wait - 5..=wait).contains(&shown), "{shown}, not {wait}");
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_it_cannot_list_is_named() {
    let bench = bench("").await;
    let shown = show(&bench, "api_key:alpha").await;
    let unlisted = json!([
        { "name": "address", "per": ["ip"] },
        { "name": "wide", "per": ["ip/48"] },
        { "name": "by-path", "per": ["client", "path:id"] },
        { "name": "by-method", "per": ["client", "method", "host"] },
    ]);
    assert_eq!(shown["unlisted"], unlisted);
    assert_eq!(shown["shared"], json!(["all"]));
    let shown = show(&bench, "ip:203.0.113.7").await;
    assert_eq!(shown["unlisted"].as_array().unwrap().len(), 2);
    bench.stop().await;
}

#[tokio::test]
async fn users_and_addresses_have_budgets_too() {
    on_both_stores(async |store| {
        let bench = bench(store).await;
        let rows = |month, a, slow, b| {
            these([
                ("month", month),
                ("each on a", a),
                ("slow", slow),
                ("each on b", b),
            ])
        };
        let user = ("x-user-id", "jo/é %");
        let bytes = user.1.as_bytes();
        let mut request = http::Request::get("/a");
        let value = http::HeaderValue::from_bytes(bytes).unwrap();
        request.headers_mut().unwrap().insert(user.0, value);
        let request = request.body(tidegate_testkit::body::empty()).unwrap();
        assert_eq!(bench.client.request(request).await.status, 200);
        let shown = show(&bench, "user_id:jo%2F%C3%A9%20%25").await;
        assert_eq!(left(&shown), rows(4, 8, 3, 9));
        assert_eq!(shown["client"], "user_id:jo/é %");

        // Two addresses of one /64, which is one client, and of one /48.
        let from = |address| [("x-forwarded-for", address)];
        assert_eq!(
            ask(&bench.client, "/b", &from("2001:db8:0:1::7"))
                .await
                .status,
            200
        );
        let guards = |address, wide| these([("address", address), ("wide", wide)]);
        for name in [
            "ip:2001:db8:0:1::7",
            "ip:2001:db8:0:1:ffff::",
            "ip:2001:DB8:0:1::",
        ] {
            let shown = show(&bench, name).await;
            assert_eq!(shown["client"], "ip:2001:db8:0:1::");
            let both = [guards(1999, 2999), rows(4, 9, 2, 8)].concat();
            assert_eq!(left(&shown), both, "{name}");
        }
        let shown = show(&bench, "ip:2001:db8:0:2::7").await;
        assert_eq!(
            left(&shown),
            [guards(2000, 2999), rows(5, 9, 3, 9)].concat()
        );
        // What nobody was named for counts by the peer's address.
        let shown = show(&bench, "ip:127.0.0.1").await;
        assert_eq!(left(&shown)[..2], guards(1999, 2999));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_reset_gives_everything_back_to_this_client_alone() {
    on_both_stores(async |store| {
        let bench = bench(store).await;
        let beta = ("x-api-key", "beta-key");
        for key in [ALPHA, beta] {
            get_each(&bench.client, 5, "/a", &[key], 200).await;
            assert_eq!(ask(&bench.client, "/a", &[key]).await.status, 429);
        }
        let full = these([
            ("month", 5),
            ("each on a", 9),
            ("slow", 3),
            ("each on b", 9),
        ]);
        assert_eq!(left(&reset(&bench, "api_key:alpha").await), full);
        let answer = ask(&bench.client, "/a", &[ALPHA]).await;
        assert_eq!(
            told(&answer),
            (200, Some(5), Some(4)),
            "at once on this gateway"
        );
        assert_eq!(ask(&bench.client, "/a", &[beta]).await.status, 429);
        assert_eq!(left(&show(&bench, "ip:127.0.0.1").await)[0].1, 2000 - 11);
        bench.stop().await;
    })
    .await;
}

/// Each gateway shows what it has counted itself, and says that it is no more than that.
#[tokio::test]
async fn of_local_limits_each_gateway_shows_and_resets_its_own() {
    let redis = RedisServer::start().await;
    let limit = "fixed_window: { limit: 5, window: 31d }, mode: local";
    let of = async || Bench::of_limit(&exact(&redis), limit).await;
    let (one, two) = (of().await, of().await);
    get_each(&one.client, 3, "/", &[], 200).await;
    for (bench, remaining) in [(&one, 2), (&two, 5)] {
        let shown = show(bench, "ip:127.0.0.1").await;
        assert_eq!(left(&shown), these([("it", remaining)]));
        assert_eq!(shown["limits"][0]["this_gateway_only"], true);
    }
    assert_eq!(left(&reset(&two, "ip:127.0.0.1").await), these([("it", 5)]));
    assert_eq!(left(&show(&one, "ip:127.0.0.1").await), these([("it", 2)]));
    assert_eq!(left(&reset(&one, "ip:127.0.0.1").await), these([("it", 5)]));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_reset_is_seen_by_every_gateway_within_a_second() {
    let redis = RedisServer::start().await;
    let (one, two) = (bench(&exact(&redis)).await, bench(&exact(&redis)).await);
    for round in 0..3 {
        get_each(&one.client, 5, "/a", &[ALPHA], 200).await;
        for bench in [&one, &two] {
            assert_eq!(ask(&bench.client, "/a", &[ALPHA]).await.status, 429);
        }
        reset(&one, "api_key:alpha").await;
        let start = Instant::now();
        while ask(&two.client, "/a", &[ALPHA]).await.status == 429 {
            // A second, and what a busy machine adds to it.
            assert!(
                start.elapsed() < Duration::from_secs(2),
                "round {round}: still refused"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let answer = ask(&one.client, "/a", &[ALPHA]).await;
        assert_eq!(told(&answer), (200, Some(5), Some(3)));
        reset(&two, "api_key:alpha").await;
    }
    one.stop().await;
    two.stop().await;
}
