//! Overrides with numbers of their own for named limits.

use super::*;
use crate::callers::{FAR, token};
use crate::kit::{exact, get_each};

/// Numbers for the limit of [`limited`].
const NINE: &str = "limit: 9, window: 31d";

pub(super) fn numbers(limit: &str, numbers: &str) -> Value {
    json!({ "limits": { limit: numbers }, "for": "24h", "reason": "launch day" })
}

/// Two limits per client, and one of 100 per address. A plan has numbers for both of a client's.
fn several(store: &str) -> String {
    let plan =
        "plans: { gold: { it: { fixed_window: { limit: 20, window: 31d } }, more: unlimited } }";
    let yaml = limited(store)
        .replace("[it]", "[it, more, guard]")
        .replace(
            "limits:\n",
            "limits:\n  more: { token_bucket: { capacity: 50, refill: 1/d } }\n  guard: { fixed_window: { limit: 100, window: 31d }, per: [ip] }\n",
        );
    let lines = yaml.lines().map(|line| match line.starts_with("plans:") {
        true => plan,
        false => line,
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn a_client_has_the_numbers_at_once_with_a_budget_of_their_own() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        for (name, header) in CLIENTS {
            let next = async || told(&ask(&bench.client, "/", &[header]).await);
            used_up(name, &next).await;
            let answer = set(admin, name, numbers("it", NINE)).await;
            assert_eq!(
                (&answer["action"], &answer["limits"]),
                (&json!("set"), &json!({ "it": NINE }))
            );
            // The next request has the numbers, also if a refusal was remembered.
            assert_eq!(next().await, shown(200, 9, 8), "{name}");
            // One override per name: each replaces the other.
            set(admin, name, plan("gold")).await;
            assert_eq!(next().await, shown(200, 9, 8), "{name}");
            // Other numbers meet what was used by numbers of overrides before.
            set(admin, name, numbers("it", "window: 31d, limit: 7")).await;
            assert_eq!(next().await, shown(200, 7, 5), "{name}");
            set(admin, name, numbers("it", "unlimited")).await;
            assert_eq!(next().await, (200, None, None), "{name}");
            clear(admin, name).await;
            assert_eq!(next().await, shown(429, 3, 0), "{name}");
        }
        bench.stop().await;
    })
    .await;
}

/// Limits that the override does not name keep the numbers of the client's plan.
#[tokio::test]
async fn numbers_are_laid_over_the_plan_of_the_client() {
    on_both_stores(async |store| {
        let yaml = several(store).replace(" }] } }, { user_id", ", plan: gold }] } }, { user_id");
        assert!(yaml.contains("plan: gold }]"), "{yaml}");
        let bench = Bench::start(&yaml).await;
        let admin = bench.gateway.admin;
        let key = ("x-api-key", "acme-key");
        let next = async |header| told(&ask(&bench.client, "/", &[header]).await);
        assert_eq!(next(key).await, shown(200, 20, 19));
        let report = async |name: &str| {
            let report = page_json(admin, &format!("/clients/{name}")).await;
            let limits = report["limits"].as_array().unwrap().iter();
            let limits: Vec<_> = limits
                .map(|it| (it["name"].clone(), it["limit"].clone()))
                .collect();
            (limits, report)
        };
        set(
            admin,
            "api_key:acme",
            numbers("more", "capacity: 5, refill: 1/d"),
        )
        .await;
        assert_eq!(next(key).await, shown(200, 5, 4));
        let (limits, of_key) = report("api_key:acme").await;
        assert_eq!(
            limits,
            [(json!("it"), json!(20)), (json!("more"), json!(5))]
        );
        let does = json!({ "by": "api_key:acme", "does": "set more 'capacity: 5, refill: 1/d'" });
        assert_eq!(
            (&of_key["plan"], &of_key["overridden"]),
            (&json!("gold"), &does)
        );
        // A client without a plan, two limits, and a limit that is not counted per client.
        let both =
            json!({ "limits": { "it": NINE, "guard": "limit: 8, window: 31d" }, "for": "1h" });
        set(admin, "user_id:42", both).await;
        let user = ("x-user-id", "42");
        assert_eq!(next(user).await, shown(200, 8, 7));
        let (limits, of_user) = report("user_id:42").await;
        assert_eq!(
            limits,
            [(json!("it"), json!(9)), (json!("more"), json!(50))]
        );
        assert_eq!(of_user["plan"], Value::Null);
        // Others of the address have its own budget.
        assert_eq!(next(("x-user-id", "43")).await, shown(200, 3, 2));
        bench.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_in_force_on_another_gateway_and_end_by_themselves() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = limited(&format!("{}secret: the same for both\n", exact(&redis)));
    let yaml = yaml.replace("UPSTREAM", &upstream.url());
    let (one, two) = tokio::join!(TestGateway::start(&yaml), TestGateway::start(&yaml));
    let client = Client::new(two.address);
    let next = async || told(&ask(&client, "/", &[("x-user-id", "42")]).await);
    assert_eq!(next().await, shown(200, 3, 2));
    set(
        one.admin,
        "user_id:42",
        numbers("it", "limit: 1000000, window: 31d"),
    )
    .await;
    until("the other gateway has them", async || {
        next().await.1 == Some(1_000_000)
    })
    .await;
    let short = json!({ "limits": { "it": "limit: 999999, window: 31d" }, "for": "700ms" });
    set(one.admin, "user_id:42", short).await;
    until("they end", async || next().await.1 == Some(3)).await;
    one.stop().await;
    two.stop().await;
}

/// crates/config tests which numbers fit.
#[tokio::test]
async fn numbers_that_cannot_be_used_are_refused() {
    let bench = Bench::start(&several("")).await;
    let admin = bench.gateway.admin;
    for (limits, detail) in [
        (json!({ "ti": NINE }), "did you mean `it`?"),
        (
            json!({ "it": "limit: 9, windw: 31d" }),
            "unknown key `windw`; did you mean `window`?; allowed here: limit, window, zone",
        ),
        (json!({ "more": NINE }), "allowed here: capacity, refill"),
        (
            json!({ "it": NINE, "more": "capacity: 0, refill: 1/s" }),
            "capacity",
        ),
        (
            json!({ "it": "limit: 9,\nwindow: 31d" }),
            "control character",
        ),
        (json!({}), "1 to 8 limits"),
        (json!({ "it": "x".repeat(1_024) }), "1024 bytes"),
        (json!({ "it": 9 }), "cannot be read"),
    ] {
        let wanted = json!({ "limits": limits, "for": "1h" });
        let answer = change(admin, Method::PUT, "user_id:1", &[], &wanted).await;
        assert_eq!(
            (answer.status.as_u16(), error(&answer)),
            (400, json!("bad_override"))
        );
        assert!(answer.text().contains(detail), "{}", answer.text());
    }
    let load = json!({ "overrides": [
        { "name": "user_id:2", "limits": { "it": NINE }, "for": "1h" },
        { "name": "user_id:3", "limits": { "ti": NINE }, "for": "1h" },
    ] });
    let load = Request::post("/overrides").body(body::full(load.to_string()));
    let loaded = Client::fresh(admin).request(load.unwrap()).await;
    let loaded: Value = serde_json::from_str(loaded.text()).unwrap();
    assert_eq!((&loaded["set"], &loaded["refused"]), (&json!(1), &json!(1)));
    assert_eq!(names(admin).await, ["user_id:2"]);
    let count = sample(admin, "tidegate_overrides{action=\"set\"}").await;
    assert_eq!(count, 1);
    bench.stop().await;
}

/// A reload that takes the limit away, or gives it another algorithm, leaves the numbers without effect. They return with the limit.
#[tokio::test]
async fn numbers_for_a_limit_that_a_reload_changes_are_left_out() {
    on_both_stores(async |store| {
        let bench = Bench::start(&several(store)).await;
        let admin = bench.gateway.admin;
        let whole = several(store).replace("UPSTREAM", &bench.upstream.url());
        let bucket = "more: { token_bucket: { capacity: 50, refill: 1/d } }";
        let gone = whole.replace(&format!("  {bucket}\n"), "");
        let gone = gone.replace("[it, more, guard]", "[it, guard]");
        let gone = gone.replace(", more: unlimited", "");
        let window = "more: { fixed_window: { limit: 2, window: 31d } }";
        let other = whole.replace(bucket, window);
        let both =
            json!({ "limits": { "it": NINE, "more": "capacity: 5, refill: 1/d" }, "for": "1h" });
        set(admin, "user_id:42", both).await;
        for (yaml, it, more) in [
            (&whole, 9, Some(5)),
            (&gone, 9, None),
            (&other, 9, Some(2)),
            (&whole, 9, Some(5)),
        ] {
            bench.gateway.reload(yaml).await;
            let answer = ask(&bench.client, "/", &[("x-user-id", "42")]).await;
            assert_eq!(answer.status, 200);
            let report = page_json(admin, "/clients/user_id:42").await;
            let of = |name: &str| {
                let mut limits = report["limits"].as_array().unwrap().iter();
                let found = limits.find(|limit| limit["name"] == name);
                found.map(|limit| limit["limit"].as_u64().unwrap())
            };
            assert_eq!((of("it"), of("more")), (Some(it), more), "{yaml}");
        }
        // Alone, it is no override that holds.
        set(
            admin,
            "user_id:42",
            numbers("more", "capacity: 5, refill: 1/d"),
        )
        .await;
        bench.gateway.reload(&gone).await;
        let report = page_json(admin, "/clients/user_id:42").await;
        assert_eq!(report["overridden"], Value::Null);
        assert_eq!(
            told(&ask(&bench.client, "/", &[("x-user-id", "42")]).await).1,
            Some(3)
        );
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_file_keeps_numbers_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overrides.jsonl");
    let upstream = Upstream::ok();
    let yaml = limited(&format!("overrides_file: {}", file.display()));
    let yaml = yaml.replace("UPSTREAM", &upstream.url());
    let text = "\"limit\": 9, window: 31d # \\ \"ü\"";
    for is_set in [false, true] {
        let gateway = TestGateway::start(&yaml).await;
        if !is_set {
            set(gateway.admin, "user_id:1", numbers("it", text)).await;
        }
        let list = page_json(gateway.admin, "/overrides").await;
        assert_eq!(list["overrides"][0]["limits"], json!({ "it": text }));
        let client = Client::new(gateway.address);
        let answer = ask(&client, "/", &[("x-user-id", "1")]).await;
        assert_eq!(told(&answer), shown(200, 9, 8));
        gateway.stop().await;
    }
}

/// A limit per address refuses before a token is verified, but not a client that may have other numbers there.
#[tokio::test]
async fn numbers_for_a_limit_per_address_hold_for_a_client_with_a_token() {
    const SECRET: &str = "hunter2 and 25 more characters";
    on_both_stores(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, SECRET).unwrap();
        let yaml = format!(
            "
{store}
{TRUST}
clients: [{{ jwt: {{ algorithms: [HS256], key_file: \"{}\" }} }}]
limits: {{ guard: {{ fixed_window: {{ limit: 3, window: 31d }}, per: [ip] }} }}
always: [guard]
routes: [{{ path: /**, upstream: UPSTREAM }}]
",
            file.display()
        );
        let bench = Bench::start(&yaml).await;
        let bearer = |user: &str| {
            let claims = json!({ "sub": user, "exp": FAR });
            format!("Bearer {}", token(SECRET, &claims))
        };
        let (one, other) = (bearer("1"), bearer("2"));
        let next =
            async |bearer: &str| told(&ask(&bench.client, "/", &[("authorization", bearer)]).await);
        for left in [2, 1, 0] {
            assert_eq!(next(&one).await, shown(200, 3, left));
        }
        for bearer in [&one, &other, &other] {
            assert_eq!(next(bearer).await, shown(429, 3, 0));
        }
        set(bench.gateway.admin, "user_id:1", numbers("guard", NINE)).await;
        // Others are refused by the numbers of the configuration, and that is remembered.
        for _ in 0..2 {
            assert_eq!(next(&other).await, shown(429, 3, 0));
        }
        assert_eq!(next(&one).await, shown(200, 9, 8));
        bench.stop().await;
    })
    .await;
}

/// In `mode: leased` the client gets all of the new numbers, with slices of the former numbers out, and then the rest of those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_hold_for_a_leased_limit() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = limited(&exact(&redis)).replace(
        "fixed_window: { limit: 3, window: 31d } }\n",
        "fixed_window: { limit: 300, window: 31d }, mode: leased }\n",
    );
    let yaml = yaml.replace("UPSTREAM", &upstream.url());
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    let user = [("x-user-id", "42")];
    let used = async || {
        let mut used = 0;
        while get(&client, "/", &user).await == 200 {
            used += 1;
        }
        used
    };
    get_each(&client, 100, "/", &user, 200).await;
    set(
        gateway.admin,
        "user_id:42",
        numbers("it", "limit: 500, window: 31d"),
    )
    .await;
    assert_eq!(used().await, 500);
    clear(gateway.admin, "user_id:42").await;
    assert_eq!(used().await, 200);
    gateway.stop().await;
}
