//! Budgets of one limit on the admin port and by `tidegate limit`: shown, reset, and listed by key.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use http::Method;
use serde_json::{Value, json};
use tidegate_testkit::{Answer, Client, RedisCluster};

use crate::callers::TRUST;
use crate::kit::{
    Bench, LONG, as_asked, ask, get, get_each, held_with, on_both_stores, send, until,
};
use crate::support::TestGateway;
use crate::support::commands::{ended_beside, tidegate};

/// Limits that count by every kind of value.
const LIMITS: &str = "
limits:
  tenant: { sliding_window_counter: { limit: 10, window: 31d }, per: [\"header:x-tenant\"] }
  session: { fixed_window: { limit: 9, window: 31d }, per: [\"cookie:sid\", method, route] }
  all: { fixed_window: { limit: 1000, window: 1mo }, per: [] }
  each: { token_bucket: { capacity: 5, refill: 1/31d }, per: [ip] }
routes:
  - { name: a, path: /a, upstream: UPSTREAM, limits: [tenant, session, all, each] }
  - { name: b, path: /b, upstream: UPSTREAM, limits: [session, all] }
";

async fn asked(admin: SocketAddr, method: Method, target: &str) -> Answer {
    send(&Client::fresh(admin), method, target, &[]).await
}

async fn show(admin: SocketAddr, target: &str) -> Value {
    report(&asked(admin, Method::GET, target).await)
}

async fn reset(admin: SocketAddr, target: &str) -> Value {
    report(&asked(admin, Method::POST, target).await)
}

fn report(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(answer.text()).unwrap()
}

/// The used, held and remaining units of each budget.
fn units(report: &Value) -> Vec<[u64; 3]> {
    let budgets = report["budgets"].as_array().unwrap().iter();
    let number = |budget: &Value, name: &str| budget[name].as_u64().unwrap();
    budgets
        .map(|it| ["used", "held", "remaining"].map(|name| number(it, name)))
        .collect()
}

#[tokio::test]
async fn each_budget_is_shown_and_reset() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!("{store}\n{TRUST}\n{LIMITS}")).await;
        let admin = bench.gateway.admin;
        let request = [
            ("x-tenant", "acme"),
            ("cookie", "sid=7"),
            ("x-forwarded-for", "192.0.2.7"),
        ];
        get_each(&bench.client, 3, "/a", &request, 200).await;
        get_each(&bench.client, 2, "/b", &request, 200).await;
        let tenant = show(admin, "/limits/tenant?per=header:x-tenant=acme").await;
        assert_eq!(units(&tenant), [[3, 0, 7]]);
        assert_eq!(tenant["algorithm"], "sliding_window_counter");
        let windows = &tenant["budgets"][0]["windows"];
        assert_eq!(
            [&windows["current"], &windows["previous"], &windows["rate"]],
            [3, 0, 3]
        );
        let other = show(admin, "/limits/tenant?per=header:x-tenant=other").await;
        assert_eq!(units(&other), [[0, 0, 10]]);
        let session = "/limits/session?per=cookie:sid=7&per=method=GET";
        let by_route = show(admin, session).await;
        let routes = by_route["budgets"].as_array().unwrap().iter();
        let routes: Vec<_> = routes.map(|it| it["route"].as_str().unwrap()).collect();
        assert_eq!(routes, ["a", "b"]);
        assert_eq!(units(&by_route), [[3, 0, 6], [2, 0, 7]]);
        let all = show(admin, "/limits/all").await;
        assert_eq!(units(&all), [[5, 0, 995]]);
        assert_eq!(all["budgets"][0]["windows"]["current"], 5);
        assert_eq!(
            units(&show(admin, "/limits/each?client=192.0.2.7").await),
            [[3, 0, 2]]
        );
        // A reset clears the named budget alone.
        let target = "/limits/session/reset?per=cookie:sid=7&per=method=GET&route=a";
        assert_eq!(units(&reset(admin, target).await), [[0, 0, 9]]);
        assert_eq!(units(&show(admin, session).await), [[0, 0, 9], [2, 0, 7]]);
        assert_eq!(
            units(&reset(admin, "/limits/all/reset").await),
            [[0, 0, 1000]]
        );
        let key = tenant["budgets"][0]["key"].as_str().unwrap();
        let by_key = format!("/limits/tenant?key={key}");
        assert_eq!(units(&show(admin, &by_key).await), [[3, 0, 7]]);
        reset(admin, &format!("/limits/tenant/reset?key={key}")).await;
        assert_eq!(units(&show(admin, &by_key).await), [[0, 0, 10]]);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn units_that_requests_hold_are_shown_apart() {
    on_both_stores(async |store| {
        let (upstream, release) = held_with(as_asked);
        let yaml = format!(
            "
{store}
limits:
  running: {{ concurrency: {{ limit: 4 }}, per: [] }}
  tokens: {{ token_bucket: {{ capacity: 50, refill: 1/31d }}, per: [], cost: {{ response_header: x-cost, reserve: 20 }} }}
routes: [{{ path: /**, upstream: \"{}\", limits: [running, tokens] }}]
",
            upstream.url()
        );
        let gateway = TestGateway::start(&yaml).await;
        let request = ask(gateway.address, "/");
        upstream.wait_for(1, LONG).await;
        let shown = async |name: &str| units(&show(gateway.admin, &format!("/limits/{name}")).await);
        assert_eq!(shown("running").await, [[0, 1, 3]]);
        assert_eq!(shown("tokens").await, [[0, 20, 30]]);
        let keys = show(gateway.admin, "/limits/running/keys").await;
        assert_eq!(units(&keys), [[0, 1, 3]]);
        release.send_replace(true);
        assert_eq!(request.await.unwrap().status, 200);
        until("the hold has ended", async || {
            shown("running").await == [[0, 0, 4]]
        })
        .await;
        // The answer named no cost, so the reserved units are charged.
        assert_eq!(shown("tokens").await, [[20, 0, 30]]);
        gateway.stop().await;
    })
    .await;
}

/// All keys of a limit with their used units.
async fn all_keys(admin: SocketAddr, name: &str) -> BTreeSet<(String, u64)> {
    let (mut keys, mut cursor) = (BTreeSet::new(), None::<String>);
    loop {
        let query = cursor.map_or_else(String::new, |cursor| format!("?cursor={cursor}"));
        let page = show(admin, &format!("/limits/{name}/keys{query}")).await;
        for budget in page["budgets"].as_array().unwrap() {
            let key = budget["key"].as_str().unwrap().to_owned();
            keys.insert((key, budget["used"].as_u64().unwrap()));
        }
        match page["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return keys,
        }
    }
}

async fn every_key_is_listed(store: &str) {
    let bench = Bench::start(&format!("{store}\n{TRUST}\n{LIMITS}")).await;
    let admin = bench.gateway.admin;
    let mut expected = BTreeSet::new();
    for number in 0..40_u64 {
        let tenant = format!("t{number}");
        let used = 1 + number % 3;
        let address = format!("192.0.2.{number}");
        let headers = [("x-tenant", &*tenant), ("x-forwarded-for", &*address)];
        get_each(&bench.client, used as usize, "/a", &headers, 200).await;
        let shown = show(
            admin,
            &format!("/limits/tenant?per=header:x-tenant={tenant}"),
        )
        .await;
        let key = shown["budgets"][0]["key"].as_str().unwrap();
        expected.insert((key.to_owned(), used));
    }
    assert_eq!(all_keys(admin, "tenant").await, expected);
    assert_eq!(all_keys(admin, "each").await.len(), 40);
    assert_eq!(all_keys(admin, "all").await.len(), 1);
    bench.stop().await;
}

#[tokio::test]
async fn every_key_of_a_limit_is_listed() {
    on_both_stores(every_key_is_listed).await;
}

#[tokio::test]
async fn every_key_of_a_limit_is_listed_in_a_cluster() {
    let cluster = RedisCluster::start().await;
    let url = cluster.url();
    every_key_is_listed(&format!(
        "store: {{ redis: {{ url: \"{url}\", timeout: 5s }} }}\nsecret: \"of the test alone, twenty bytes\""
    ))
    .await;
}

#[tokio::test]
async fn wrong_questions_are_refused() {
    let bench = Bench::start(&format!("store: memory\n{TRUST}\n{LIMITS}")).await;
    let key = "0".repeat(32);
    for (method, target, status, error) in [
        (Method::GET, "/limits/nope", 404, "unknown_limit"),
        (Method::GET, "/limits/nope/keys", 404, "unknown_limit"),
        (Method::GET, "/limits/tenant", 400, "missing_value"),
        (Method::GET, "/limits/each", 400, "missing_value"),
        (Method::GET, "/limits/tenant?per=header", 400, "bad_check"),
        (Method::GET, "/limits/tenant?per=x:y=1", 400, "bad_check"),
        (Method::GET, "/limits/tenant?cost=1", 400, "bad_check"),
        (Method::GET, "/limits/tenant?key=12", 400, "bad_check"),
        (
            Method::GET,
            &format!("/limits/tenant?key={key}&client=a:b"),
            400,
            "bad_check",
        ),
        (
            Method::GET,
            "/limits/all?client=api_key:x",
            400,
            "unknown_client",
        ),
        (Method::GET, "/limits/all?route=nope", 404, "unknown_route"),
        (Method::GET, "/limits/all/keys?cursor=x", 400, "bad_check"),
        (Method::GET, "/limits/all/keys?client=x", 400, "bad_check"),
        (Method::POST, "/limits/all", 405, "method_not_allowed"),
        (Method::GET, "/limits/all/reset", 405, "method_not_allowed"),
        (Method::POST, "/limits/tenant/reset", 400, "missing_value"),
    ] {
        let answer = asked(bench.gateway.admin, method, target).await;
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        let problem: Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(problem["error"], error, "{target}: {problem}");
    }
    // A cursor behind the end is the end.
    let end = show(bench.gateway.admin, "/limits/all/keys?cursor=99999-0").await;
    assert_eq!((&end["budgets"], &end["next"]), (&json!([]), &Value::Null));
    bench.stop().await;
}

#[tokio::test]
async fn the_command_prints_a_table() {
    let bench = Bench::start(&format!("store: memory\n{TRUST}\n{LIMITS}")).await;
    let admin = format!("http://{}", bench.gateway.admin);
    let headers = [("x-tenant", "acme")];
    assert_eq!(get(&bench.client, "/a", &headers).await, 200);
    let limit = async |arguments: &[&str]| {
        let mut command = tidegate(&["limit"]);
        command.args(arguments).args(["--admin", &admin]);
        ended_beside(command).await
    };
    let (status, out, _) = limit(&["tenant", "show", "--header", "x-tenant=acme"]).await;
    assert_eq!(status, Some(0));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(
        lines[0],
        "tenant: sliding_window_counter, per header:x-tenant"
    );
    assert!(lines[1].contains("used  held  left  of"), "{out}");
    assert!(lines[2].ends_with("1 now, 0 before, rate 1"), "{out}");
    assert_eq!(lines[3], "counted by this gateway alone");
    let (_, out, _) = limit(&["tenant", "keys", "--json"]).await;
    let keys: Value = serde_json::from_str(&out).unwrap();
    let key = keys["budgets"][0]["key"].as_str().unwrap();
    let (status, out, _) = limit(&["tenant", "reset", "--key", key]).await;
    assert_eq!(
        (status, out.contains("0 now, 0 before")),
        (Some(0), true),
        "{out}"
    );
    for (arguments, text) in [
        (&["tenant", "show", "--header", "acme"][..], "NAME=VALUE"),
        (&["tenant", "keys", "--ip", "192.0.2.1"], "no effect"),
        (&["all", "show", "--cursor", "0-0"], "no effect"),
    ] {
        let (status, _, error) = limit(arguments).await;
        assert_eq!(status, Some(2), "{error}");
        assert!(error.contains(text), "{error}");
    }
    let (status, _, error) = limit(&["nope", "show"]).await;
    assert_eq!(status, Some(1), "{error}");
    assert!(error.contains("no limit is called `nope`"), "{error}");
    bench.stop().await;
}
