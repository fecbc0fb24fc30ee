//! `serve: budgets`: clients read their own budgets.

use http::{Method, Request, StatusCode};
use serde_json::Value;
use tidegate_testkit::body::{empty, full};
use tidegate_testkit::{Answer, Client, RedisServer, Upstream};
use tokio::sync::watch;

use crate::kit::{exact, number, on_both_stores, sample, until};
use crate::support::TestGateway;

async fn budgets(client: &Client, name: &str) -> Value {
    let request = Request::get("/limits").header("x-user-id", name);
    let answer = client.request(request.body(empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    serde_json::from_slice(&answer.body).unwrap()
}

async fn ask(client: &Client, name: &str, path: &str) -> Answer {
    let request = Request::get(path).header("x-user-id", name);
    client.request(request.body(empty()).unwrap()).await
}

/// The budget of this limit.
fn budget<'r>(report: &'r Value, name: &str) -> &'r Value {
    let mut all = report["budgets"].as_array().unwrap().iter();
    all.find(|it| it["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// A configuration that knows users by a header.
fn yaml(store: &str, limits: &str, more: &str, upstream: &Upstream) -> String {
    let url = upstream.url();
    format!(
        "{store}secret: the same
trusted_proxies: [127.0.0.0/8]
clients: [{{ user_id: {{ header: X-User-Id }} }}]
limits:\n{limits}
routes:
  - {{ path: /limits, serve: budgets }}
  - {{ path: /**, upstream: \"{url}\", limits: [it] }}\n{more}"
    )
}

/// What it says is what the next decision finds: all algorithms, and all modes that they have.
#[tokio::test]
async fn it_says_what_the_next_decision_finds() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let algorithms = [
        (
            "token_bucket: { capacity: 5, refill: 1/31d }",
            &["exact", "local", "leased"][..],
        ),
        (
            "leaky_bucket: { queue: 5, drain: 1/31d, nodelay: true }",
            &["exact", "local"],
        ),
        (
            "fixed_window: { limit: 5, window: 31d }",
            &["exact", "local", "leased", "synced"],
        ),
        (
            "fixed_window: { limit: 5, window: 1mo, zone: Europe/Berlin }",
            &["exact", "local"],
        ),
        (
            "sliding_window_log: { limit: 5, window: 31d }",
            &["exact", "local"],
        ),
        (
            "sliding_window_counter: { limit: 5, window: 31d }",
            &["exact", "local", "leased", "synced"],
        ),
    ];
    for (algorithm, modes) in algorithms {
        for mode in ["memory"].iter().chain(modes) {
            let case = format!("{algorithm} {mode}");
            let (store, mode) = match *mode {
                "memory" => ("store: memory\n".to_owned(), String::new()),
                mode => (exact(&redis), format!(", mode: {mode}")),
            };
            let name = case.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
            let limit = format!("  it: {{ {algorithm}{mode} }}");
            let (limit, name) = (limit, name.to_lowercase());
            let gateway = TestGateway::start(&yaml(&store, &limit, "", &upstream)).await;
            let client = Client::new(gateway.address);
            for used in 0..5 {
                let own = budgets(&client, &name).await;
                let own = budget(&own, "it");
                assert_eq!(own["limit"], 5, "{case}");
                assert_eq!(
                    (&own["remaining"], &own["used"]),
                    (&(5 - used).into(), &used.into()),
                    "{case}"
                );
                assert_eq!(own["retry_after"], 0, "{case}");
                let answer = ask(&client, &name, "/").await;
                assert_eq!(answer.status, StatusCode::OK, "{case}");
                assert_eq!(
                    number(&answer, "x-ratelimit-remaining"),
                    Some(4 - used),
                    "{case}"
                );
            }
            let own = budgets(&client, &name).await;
            let own = budget(&own, "it");
            assert_eq!(
                (&own["remaining"], &own["used"]),
                (&0.into(), &5.into()),
                "{case}"
            );
            let wait = own["retry_after"].as_u64().unwrap();
            let refused = ask(&client, &name, "/").await;
            assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{case}");
            let told = number(&refused, "retry-after").unwrap();
            assert!(
                wait > 0 && told.abs_diff(wait) <= 1,
                "{case}: {wait} and {told}"
            );
            let reset = number(&refused, "x-ratelimit-reset").unwrap();
            assert!(
                own["reset"].as_u64().unwrap().abs_diff(reset) <= 1,
                "{case}"
            );
            gateway.stop().await;
        }
    }
}

/// Units that running requests hold are neither used nor left.
#[tokio::test]
async fn held_units_are_apart() {
    on_both_stores(async |store| {
        let (answers, due) = watch::channel(false);
        let upstream = Upstream::start(move |_| {
            let mut due = due.clone();
            async move {
                due.wait_for(|is_due| *is_due).await.unwrap();
                let json = http::Response::builder().header("content-type", "application/json");
                json.body(full(r#"{"used":7}"#)).unwrap()
            }
        });
        let limits = "  it: { fixed_window: { limit: 100, window: 31d }, cost: { response_json: used, reserve: 40 } }
  places: { concurrency: { limit: 3 } }";
        let yaml = yaml(store, limits, "", &upstream).replace("limits: [it]", "limits: [it, places]");
        let gateway = TestGateway::start(&yaml).await;
        let client = Client::new(gateway.address);
        let numbers = async |name: &str| {
            let report = budgets(&client, "acme").await;
            let own = budget(&report, name);
            ["used", "held", "remaining"].map(|key| own[key].as_u64().unwrap())
        };
        assert_eq!(numbers("it").await, [0, 0, 100]);
        let other = Client::new(gateway.address);
        let asking = async { ask(&other, "acme", "/").await };
        let reading = async {
            upstream.wait_for(1, crate::kit::LONG).await;
            assert_eq!(numbers("it").await, [0, 40, 60]);
            assert_eq!(numbers("places").await, [0, 1, 2]);
            answers.send(true).unwrap();
        };
        tokio::join!(asking, reading);
        until("the hold has ended", async || numbers("it").await == [7, 0, 93]).await;
        until("the place is free", async || numbers("places").await == [0, 0, 3]).await;
        gateway.stop().await;
    })
    .await;
}

/// It shows the client's own budgets and plan: no other client's, no shared limit, and no limit that depends on the request.
#[tokio::test]
async fn it_shows_the_clients_own_budgets_alone() {
    let upstream = Upstream::ok();
    let limits = "  it: { fixed_window: { limit: 5, window: 31d } }
  all: { fixed_window: { limit: 9, window: 31d }, per: [] }
  guard: { fixed_window: { limit: 50, window: 31d }, per: [ip] }
  tenant: { fixed_window: { limit: 7, window: 31d }, per: [client, \"header:x-tenant\"] }
  seen: { fixed_window: { limit: 7, window: 31d }, action: observe }
  split: { fixed_window: { limit: 4, window: 31d }, per: [client, route] }";
    let more = "  - { name: other, path: /other, upstream: UPSTREAM, limits: [split] }
always: [guard]
plans:
  gold: { members: [\"user_id:gold\"], it: { fixed_window: { limit: 500, window: 31d } } }
  free: { members: [\"user_id:free\"], it: unlimited }\n";
    let more = more.replace("UPSTREAM", &format!("\"{}\"", upstream.url()));
    let yaml = yaml("store: memory\n", limits, &more, &upstream)
        .replace("limits: [it]", "limits: [it, all, tenant, seen]");
    let (routes, others) = yaml.split_once("  - { path: /**").unwrap();
    let (rest, other) = others.split_once("  - { name: other").unwrap();
    let (other, end) = other.split_once('\n').unwrap();
    let yaml = format!("{routes}  - {{ name: other{other}\n  - {{ path: /**{rest}{end}");
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    for name in ["acme", "other"] {
        ask(&client, name, "/").await;
        ask(&client, name, "/other").await;
    }
    ask(&client, "acme", "/").await;
    let report = budgets(&client, "acme").await;
    assert_eq!(report["client"], "user_id:acme");
    assert_eq!(report["plan"], Value::Null);
    let list = report["budgets"].as_array().unwrap();
    let list: Vec<_> = list
        .iter()
        .map(|it| {
            (
                it["name"].as_str().unwrap(),
                it["route"].as_str(),
                it["used"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        list,
        [
            ("guard", None, 6),
            ("split", Some("other"), 1),
            ("it", None, 2)
        ]
    );
    let gold = budgets(&client, "gold").await;
    assert_eq!(gold["plan"], "gold");
    assert_eq!(budget(&gold, "it")["limit"], 500);
    let free = budgets(&client, "free").await;
    assert_eq!(free["unlimited"], serde_json::json!(["it"]));
    // Reading is charged to the limits under `always` alone.
    assert_eq!(budget(&free, "guard")["used"], 8);
    gateway.stop().await;
}

/// Other methods are no answer, HEAD has no body, credentials that are refused stay refused, and the requests count as served.
#[tokio::test]
async fn it_is_a_route_like_others() {
    let upstream = Upstream::ok();
    let limits = "  it: { fixed_window: { limit: 5, window: 31d } }";
    let yaml = yaml("store: memory\n", limits, "", &upstream)
        .replace(
            "serve: budgets",
            "name: own, serve: budgets, cors: { origins: [\"https://app.example.com\"] }",
        )
        .replace(
            "user_id: { header: X-User-Id }",
            "api_key: { unknown: reject, keys: [{ name: a, hash: \"sha256:0c7e232ca6aa55ab05a0287b1c4198c7b4275500bce25c40b5a6aa7d564d3c45\" }] }",
        )
        .replace("path: /**", "path: /api/**");
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address)
        .knows("www-authenticate")
        .knows("vary")
        .knows("access-control-allow-origin")
        .knows("access-control-expose-headers")
        .knows("access-control-allow-methods");
    let send = async |method: Method, headers: &[(&str, &str)]| {
        let mut request = Request::builder().method(method).uri("/limits");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        client.request(request.body(empty()).unwrap()).await
    };
    assert_eq!(send(Method::GET, &[]).await.status, 200);
    let head = send(Method::HEAD, &[]).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    assert_eq!(send(Method::POST, &[]).await.status, 405);
    assert_eq!(
        send(Method::GET, &[("x-api-key", "nobody")]).await.status,
        401
    );
    let origin = ("origin", "https://app.example.com");
    let answer = send(Method::GET, &[origin]).await;
    assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1));
    let preflight = [origin, ("access-control-request-method", "GET")];
    assert_eq!(send(Method::OPTIONS, &preflight).await.status, 204);
    let served = "tidegate_requests_total{route=\"own\",outcome=\"served\",status=\"2xx\"}";
    until("three were served", async || {
        sample(gateway.admin, served).await == 3
    })
    .await;
    assert_eq!(upstream.count(), 0);
    gateway.stop().await;
}

/// A store that does not answer: the numbers of this gateway, and no error.
#[tokio::test]
async fn without_redis_it_has_this_gateways_numbers() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let limits = "  it: { fixed_window: { limit: 5, window: 31d } }";
    let store = exact(&redis)
        .replace("closed", "local")
        .replace("5s", "200ms");
    let gateway = TestGateway::start(&yaml(&store, limits, "", &upstream)).await;
    let client = Client::new(gateway.address);
    ask(&client, "acme", "/").await;
    drop(redis);
    until("the gateway decides alone", async || {
        let answer = ask(&client, "acme", "/").await;
        answer.status == StatusCode::OK
    })
    .await;
    let report = budgets(&client, "acme").await;
    assert_eq!(budget(&report, "it")["limit"], 5);
    gateway.stop().await;
}

/// A client that one route exempts is charged by the others.
#[tokio::test]
async fn an_exemption_of_one_route_is_none_of_another() {
    let upstream = Upstream::ok();
    let limits = "  it: { fixed_window: { limit: 5, window: 31d } }";
    let free = "  - { path: /free, upstream: UPSTREAM, limits: [it], exempt: [\"user_id:acme\"] }\n  - { path: /**";
    let free = free.replace("UPSTREAM", &format!("\"{}\"", upstream.url()));
    let yaml = yaml("store: memory\n", limits, "", &upstream).replace("  - { path: /**", &free);
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    ask(&client, "acme", "/free").await;
    ask(&client, "acme", "/").await;
    let report = budgets(&client, "acme").await;
    assert_eq!(budget(&report, "it")["used"], 1);
    assert_eq!(report["unlimited"], serde_json::json!([]));
    gateway.stop().await;
    let yaml = format!("exempt: [\"user_id:acme\"]\n{yaml}");
    let gateway = TestGateway::start(&yaml).await;
    let report = budgets(&Client::new(gateway.address), "acme").await;
    assert_eq!(report["budgets"], serde_json::json!([]));
    assert_eq!(report["unlimited"], serde_json::json!(["it"]));
    gateway.stop().await;
}
