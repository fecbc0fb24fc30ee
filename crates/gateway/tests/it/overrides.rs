//! Overrides at run time: what operators set for a client or a network, on both stores, and on several gateways.

mod audit;
mod bounds;
mod commands;
mod limits;
mod numbers;
mod precedence;
mod shared;
mod under_way;

use std::net::SocketAddr;

use http::{Method, Request};
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Client, RedisServer, Upstream, body};

use crate::callers::{TRUST, ask, listed};
use crate::kit::{
    Bench, get, json_of, on_both_stores, page, page_json, sample, send_body, shown, told, until,
};
use crate::support::TestGateway;

/// A change through the admin port.
async fn change(
    admin: SocketAddr,
    method: Method,
    name: &str,
    headers: &[(&str, &str)],
    wanted: &Value,
) -> Answer {
    let body = match wanted {
        Value::Null => body::empty(),
        wanted => body::full(wanted.to_string()),
    };
    let client = Client::fresh(admin).knows("etag").knows("www-authenticate");
    send_body(
        &client,
        method,
        &format!("/overrides/{name}"),
        headers,
        body,
    )
    .await
}

/// Sets an override, and returns it.
pub(crate) async fn set(admin: SocketAddr, name: &str, wanted: Value) -> Value {
    let answer = change(admin, Method::PUT, name, &[], &wanted).await;
    assert_eq!(answer.status, 200, "{name} {wanted}: {}", answer.text());
    serde_json::from_str(answer.text()).unwrap()
}

pub(crate) async fn clear(admin: SocketAddr, name: &str) {
    let answer = change(admin, Method::DELETE, name, &[], &Value::Null).await;
    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
}

fn block() -> Value {
    json!({ "action": "block", "for": "never" })
}

fn exempt() -> Value {
    json!({ "action": "exempt", "for": "1h" })
}

pub(crate) fn plan(name: &str) -> Value {
    json!({ "plan": name, "for": "24h", "reason": "launch day" })
}

/// The `error` of an answer of the gateway's own.
fn error(answer: &Answer) -> Value {
    json_of(answer)["error"].clone()
}

/// The names of the overrides that are in force.
async fn names(admin: SocketAddr) -> Vec<String> {
    let list = page_json(admin, "/overrides").await;
    let list = list["overrides"].as_array().unwrap();
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    list.iter().map(name).collect()
}

/// One limit of 3, 9 in the plan gold, counted per client.
fn limited(store: &str) -> String {
    format!(
        "
{store}
{TRUST}
clients: [{{ api_key: {{ keys: [{}] }} }}, {{ user_id: {{}} }}]
limits:
  it: {{ fixed_window: {{ limit: 3, window: 31d }} }}
plans: {{ gold: {{ it: {{ fixed_window: {{ limit: 9, window: 31d }} }} }} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [it] }}
",
        listed("acme")
    )
}

/// Names of overrides, each with a header of a client that has it.
const CLIENTS: [(&str, (&str, &str)); 5] = [
    ("user_id:42", ("x-user-id", "42")),
    ("api_key:acme", ("x-api-key", "acme-key")),
    ("ip:192.0.2.1", ("x-forwarded-for", "192.0.2.1")),
    ("198.51.100.0/24", ("x-forwarded-for", "198.51.100.7")),
    ("2001:db8::/32", ("x-forwarded-for", "2001:db8::7")),
];

/// Uses up the budget of 3 of a client, whose next answer is `next`.
async fn used_up(name: &str, next: impl AsyncFn() -> (u16, Option<u64>, Option<u64>)) {
    for left in [2, 1, 0] {
        assert_eq!(next().await, shown(200, 3, left), "{name}");
    }
    assert_eq!(next().await, shown(429, 3, 0), "{name}");
}

#[tokio::test]
async fn a_client_gets_what_an_override_says_and_then_finds_its_budget_again() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        for (name, header) in CLIENTS {
            let next = async || told(&ask(&bench.client, "/", &[header]).await);
            used_up(name, &next).await;
            // The next request has the plan, also if a refusal was remembered.
            let set_up = set(admin, name, plan("gold")).await;
            assert_eq!(
                (&set_up["plan"], &set_up["action"]),
                (&json!("gold"), &json!("plan"))
            );
            assert_eq!(next().await, shown(200, 9, 8), "{name}");
            set(admin, name, exempt()).await;
            for _ in 0..7 {
                assert_eq!(next().await, (200, None, None), "{name}");
            }
            set(admin, name, block()).await;
            let answer = ask(&bench.client, "/", &[header]).await;
            assert_eq!(
                (answer.status.as_u16(), error(&answer)),
                (403, json!("denied"))
            );
            assert_eq!(told(&answer), (403, None, None));
            clear(admin, name).await;
            assert_eq!(next().await, shown(429, 3, 0), "{name}");
        }
        assert_eq!(names(admin).await, [""; 0]);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_override_is_shown_listed_and_ends() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        let short = json!({ "action": "block", "for": "700ms" });
        let shown = set(admin, "user_id:1", short).await;
        let one = change(admin, Method::GET, "user_id:1", &[], &Value::Null).await;
        assert_eq!(one.status, 200);
        assert_eq!(serde_json::from_str::<Value>(one.text()).unwrap(), shown);
        set(admin, "10.0.0.0%2F8", plan("gold")).await;
        set(admin, "user_id:a%2Fb%20%C3%BC", exempt()).await;
        assert_eq!(names(admin).await.len(), 3);
        let report = page_json(admin, "/clients/ip:10.1.2.3").await;
        let overridden = json!({ "by": "10.0.0.0/8", "does": "plan gold" });
        assert_eq!(
            (&report["plan"], &report["overridden"]),
            (&json!("gold"), &overridden)
        );
        until("it ends", async || {
            get(&bench.client, "/", &[("x-user-id", "1")]).await == 200
        })
        .await;
        assert_eq!(names(admin).await, ["user_id:a/b ü", "10.0.0.0/8"]);
        assert_eq!(page(admin, "/overrides/user_id:1").await.0, 404);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_blocked_request_is_counted_as_denied() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    set(admin, "user_id:7", block()).await;
    set(admin, "198.51.100.0/24", block()).await;
    for header in [("x-user-id", "7"), ("x-forwarded-for", "198.51.100.9")] {
        assert_eq!(get(&bench.client, "/", &[header]).await, 403);
    }
    let denied = "tidegate_requests_total{route=\"/**\",outcome=\"denied\",status=\"4xx\"}";
    assert_eq!(sample(admin, denied).await, 2);
    assert_eq!(bench.upstream.count(), 0);
    bench.stop().await;
}

/// What is in force is counted by action, also when it has ended; changes by what became of them.
#[tokio::test]
async fn overrides_and_their_changes_are_counted() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        let counts = async || {
            let mut counts = Vec::new();
            for action in ["plan", "exempt", "block"] {
                let metric = format!("tidegate_overrides{{action=\"{action}\"}}");
                counts.push(sample(admin, &metric).await);
            }
            for outcome in ["made", "refused", "failed"] {
                let metric = format!("tidegate_override_changes_total{{outcome=\"{outcome}\"}}");
                counts.push(sample(admin, &metric).await);
            }
            counts
        };
        assert_eq!(counts().await, [0; 6]);
        set(admin, "user_id:1", plan("gold")).await;
        set(admin, "user_id:2", block()).await;
        let short = json!({ "action": "block", "for": "700ms" });
        set(admin, "10.0.0.0%2F8", short).await;
        assert_eq!(counts().await[3..], [3, 0, 0]);
        // It may have ended by now.
        assert_eq!(counts().await[..2], [1, 0]);
        set(admin, "user_id:2", exempt()).await;
        clear(admin, "user_id:1").await;
        let stale = [("if-match", "\"1\"")];
        for (name, headers, wanted) in [
            ("user_id:2", &stale[..], block()),
            ("nobody", &[], block()),
            ("user_id:2", &[], Value::Null),
        ] {
            let answer = change(admin, Method::PUT, name, headers, &wanted).await;
            assert!(answer.status.is_client_error(), "{answer:?}");
        }
        // To look changes nothing.
        assert_eq!(page(admin, "/overrides/user_id:9").await.0, 404);
        until("the short one ends", async || {
            counts().await == [0, 1, 0, 5, 3, 0]
        })
        .await;
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_set_is_refused() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    // A name, the body, and what the refusal has.
    for row in [
        r#"nobody | { "action": "block", "for": "never" } | api_key:NAME"#,
        r#"10.1.2.3%2F8 | { "action": "block", "for": "never" } | 10.0.0.0"#,
        r#"user_id:1 | { "action": "block" } | for how long"#,
        r#"user_id:1 | { "action": "block", "for": "0s" } | 30m, 24h, 7d"#,
        r#"user_id:1 | { "action": "block", "for": "24" } | 30m, 24h, 7d"#,
        r#"user_id:1 | { "plan": "silver", "for": "1h" } | gold"#,
        r#"user_id:1 | { "action": "plan", "for": "1h" } | what the override does"#,
        r#"user_id:1 | { "for": "1h" } | what the override does"#,
        r#"user_id:1 | { "action": "dance", "for": "1h" } | cannot be read"#,
        r#"user_id:1 | { "action": "block", "for": "1h", "resaon": "" } | resaon"#,
        r#"user_id:1 | { "name": "user_id:2", "action": "block", "for": "1h" } | another client"#,
        r#"user_id:1 | { "action": "block", "for": "1h", "reason": "a\nb" } | control"#,
        r#"user_id:1 | { "action": "block", "until": "2020-01-01T00:00:00Z" } | ended already"#,
        "user_id:1 | null | a body is needed",
    ] {
        let cells: Vec<_> = row.split(" | ").collect();
        let (name, detail) = (cells[0], cells[2]);
        let wanted: Value = serde_json::from_str(cells[1]).unwrap();
        let answer = change(admin, Method::PUT, name, &[], &wanted).await;
        assert_eq!(answer.status, 400, "{name} {wanted}");
        assert_eq!(error(&answer), "bad_override");
        assert!(
            answer.text().contains(detail),
            "{wanted}: {}",
            answer.text()
        );
    }
    for (method, path, status) in [
        (Method::POST, "user_id:1", 405),
        (Method::DELETE, "user_id:1", 404),
    ] {
        let answer = change(admin, method, path, &[], &Value::Null).await;
        assert_eq!(answer.status, status, "{path}");
    }
    for query in ["?limit=0", "?limit=10001", "?after=x", "?all"] {
        assert_eq!(
            page(admin, &format!("/overrides{query}")).await.0,
            400,
            "{query}"
        );
    }
    assert_eq!(names(admin).await, [""; 0]);
    bench.stop().await;
}

/// A name that is cut off, or that nobody has, is no silent mistake.
#[tokio::test]
async fn a_name_that_nobody_has_is_noted() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    for (name, note) in [
        ("api_key:acme", Value::Null),
        (
            "api_key:Acme",
            json!("no API key of this name is listed now"),
        ),
        (
            "api_key:acme%2F",
            json!("no API key of this name is listed now"),
        ),
        ("api_key:unlisted-0123456789abcdef", Value::Null),
        ("user_id:anybody", Value::Null),
        (
            "client_cert:a",
            json!("nothing under `clients` reads certificates"),
        ),
        ("10.0.0.0%2F8", Value::Null),
        ("ip:10.0.0.1", Value::Null),
    ] {
        let answer = set(admin, name, block()).await;
        assert_eq!(answer["note"], note, "{name}");
        // What was answered can be set again.
        assert_eq!(set(admin, name, answer).await["note"], note, "{name}");
    }
    // `user_id:a?b` was meant.
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let wanted = match method {
            Method::GET => Value::Null,
            _ => block(),
        };
        let answer = change(admin, method, "user_id:anybody?b", &[], &wanted).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("%3F"), "{}", answer.text());
    }
    bench.stop().await;
}

/// The name of such a client has a part of the hash by which limits know it.
#[tokio::test]
async fn a_client_with_an_unlisted_key_has_an_override_at_once() {
    on_both_stores(async |store| {
        let yaml = limited(store)
            .replace("keys: [", "unknown: accept, keys: [")
            .replace("limits: [it]", "limits: [it, guard]")
            .replace(
                "limits:\n",
                "limits:\n  guard: { fixed_window: { limit: 1000, window: 31d }, per: [ip] }\n",
            );
        let bench = Bench::start(&yaml).await;
        let hash = crate::callers::sha256("some-key");
        let name = format!("api_key:unlisted-{}", &hash[..16]);
        let next = async || told(&ask(&bench.client, "/", &[("x-api-key", "some-key")]).await);
        for left in [2, 1, 0] {
            assert_eq!(next().await, shown(200, 3, left));
        }
        // It is remembered.
        for _ in 0..2 {
            assert_eq!(next().await, shown(429, 3, 0));
        }
        set(bench.gateway.admin, &name, plan("gold")).await;
        assert_eq!(next().await, shown(200, 9, 8));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_change_that_redis_does_not_answer_is_refused_and_what_is_known_stays() {
    let redis = RedisServer::start().await;
    let url = redis.url();
    let store = format!("store: {{ redis: {{ url: \"{url}\", on_failure: open }} }}\n");
    let bench = Bench::start(&limited(&store)).await;
    let admin = bench.gateway.admin;
    set(admin, "user_id:1", block()).await;
    redis.stop();
    let answer = change(admin, Method::DELETE, "user_id:1", &[], &Value::Null).await;
    assert_eq!(
        (answer.status.as_u16(), error(&answer)),
        (503, json!("store_unavailable"))
    );
    assert_eq!(get(&bench.client, "/", &[("x-user-id", "1")]).await, 403);
    assert_eq!(names(admin).await, ["user_id:1"]);
    bench.stop().await;
}
