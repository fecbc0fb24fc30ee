//! Plans: other numbers for some clients, on both stores, and nothing else about them changed.

use std::io::Write as _;

use http::Method;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tidegate_testkit::{Client, Upstream};

use crate::callers::{FAR, TRUST, ask, listed, token};
use crate::kit::{Bench, LONG, get_each, on_both_stores, sample, send, shown, told};
use crate::overrides::{clear, set};
use crate::support::GatewayProcess;

const SECRET: &str = "hunter2 and 25 more characters";

/// The secret that tokens are signed with, in a file.
fn secret_file() -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(SECRET.as_bytes()).unwrap();
    file
}

/// What shows a user whose token says this of a plan.
fn bearer(user: &str, plan: Value) -> String {
    let claims = json!({ "sub": user, "exp": FAR, "tier": plan });
    format!("Bearer {}", token(SECRET, &claims))
}

/// The entry of a key whose client has a plan.
fn listed_with(name: &str, plan: &str) -> String {
    listed(name).replace(" }", &format!(", plan: {plan} }}"))
}

/// Sources of keys and tokens, three limits, and what two plans make of them.
fn configuration(store: &str, secret: &NamedTempFile) -> String {
    format!(
        "
{store}
{TRUST}
clients:
  - api_key: {{ keys: [{}, {}, {}] }}
  - jwt: {{ algorithms: [HS256], key_file: \"{}\", plan_claim: tier }}
limits:
  month: {{ fixed_window: {{ limit: 3, window: 31d }} }}
  burst: {{ token_bucket: {{ capacity: 6, refill: 1/31d }} }}
  all: {{ sliding_window_log: {{ limit: 20, window: 31d }}, per: [] }}
plans:
  silver: {{ month: {{ fixed_window: {{ limit: 5, window: 31d }} }} }}
  gold:
    month: unlimited
    burst: {{ token_bucket: {{ capacity: 12, refill: 1/1h }} }}
    all: {{ sliding_window_log: {{ limit: 30, window: 31d }} }}
routes:
  - {{ path: /month, upstream: UPSTREAM, limits: [month] }}
  - {{ path: /both, upstream: UPSTREAM, limits: [month, burst] }}
  - {{ path: /all, upstream: UPSTREAM, limits: [all] }}
",
        listed("plain"),
        listed_with("silver", "silver"),
        listed_with("gold", "gold"),
        secret.path().display()
    )
}

const PLAIN: (&str, &str) = ("x-api-key", "plain-key");
const SILVER: (&str, &str) = ("x-api-key", "silver-key");
const GOLD: (&str, &str) = ("x-api-key", "gold-key");

#[tokio::test]
async fn a_keys_plan_has_its_own_numbers() {
    on_both_stores(async |store| {
        let secret = secret_file();
        let bench = Bench::start(&configuration(store, &secret)).await;
        for (key, limit) in [(PLAIN, 3), (SILVER, 5)] {
            for left in (0..limit).rev() {
                let answer = ask(&bench.client, "/month", &[key]).await;
                assert_eq!(told(&answer), shown(200, limit, left), "{key:?}");
            }
            let answer = ask(&bench.client, "/month", &[key]).await;
            assert_eq!(told(&answer), shown(429, limit, 0), "{key:?}");
        }
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_is_unlimited_is_neither_charged_nor_told() {
    on_both_stores(async |store| {
        let secret = secret_file();
        let bench = Bench::start(&configuration(store, &secret)).await;
        let client = &bench.client;
        let user = |plan| ("authorization", bearer("42", plan));
        let (name, gold) = user(json!("gold"));
        for left in (4..12).rev() {
            let answer = ask(client, "/both", &[(name, &gold)]).await;
            assert_eq!(told(&answer), shown(200, 12, left));
            // Alone on its route there is nothing to tell of.
            let answer = ask(client, "/month", &[(name, &gold)]).await;
            assert_eq!(told(&answer), (200, None, None));
        }
        // The same user without a plan finds nothing of it charged.
        let (_, plain) = user(Value::Null);
        let answer = ask(client, "/month", &[(name, &plain)]).await;
        assert_eq!(told(&answer), shown(200, 3, 2));
        bench.stop().await;
    })
    .await;
}

/// Each plan with other numbers has a budget of its own.
#[tokio::test]
async fn a_client_begins_with_the_budget_of_its_plan_and_finds_it_again() {
    on_both_stores(async |store| {
        let secret = secret_file();
        let bench = Bench::start(&configuration(store, &secret)).await;
        let as_told = async |plan| {
            let bearer = bearer("42", plan);
            told(&ask(&bench.client, "/month", &[("authorization", &bearer)]).await)
        };
        for left in [4, 3, 2, 1] {
            assert_eq!(as_told(json!("silver")).await, shown(200, 5, left));
        }
        assert_eq!(as_told(Value::Null).await, shown(200, 3, 2));
        assert_eq!(as_told(json!("silver")).await, shown(200, 5, 0));
        assert_eq!(as_told(json!("silver")).await, shown(429, 5, 0));
        assert_eq!(as_told(Value::Null).await, shown(200, 3, 1));
        bench.stop().await;
    })
    .await;
}

/// A reset is about the client, whatever its plan was before.
#[tokio::test]
async fn a_reset_forgets_what_was_used_under_all_plans() {
    on_both_stores(async |store| {
        let secret = secret_file();
        let bench = Bench::start(&configuration(store, &secret)).await;
        let (admin, user) = (bench.gateway.admin, "user_id:42");
        let next = async |plan| {
            let bearer = bearer("42", plan);
            told(&ask(&bench.client, "/month", &[("authorization", &bearer)]).await)
        };
        let nine = json!({ "limits": { "month": "limit: 9, window: 31d" }, "for": "1h" });
        for _ in 0..2 {
            assert_eq!(next(json!("silver")).await, shown(200, 5, 4));
            assert_eq!(next(Value::Null).await, shown(200, 3, 2));
            set(admin, user, nine.clone()).await;
            assert_eq!(next(json!("silver")).await, shown(200, 9, 8));
            clear(admin, user).await;
            let path = format!("/clients/{user}/reset");
            let answer = send(&Client::fresh(admin), Method::POST, &path, &[]).await;
            assert_eq!(answer.status, 200);
        }
        bench.stop().await;
    })
    .await;
}

/// Under a key that all share, each plan has a budget of its own.
#[tokio::test]
async fn plans_that_meet_under_one_key_have_a_budget_each() {
    on_both_stores(async |store| {
        let secret = secret_file();
        let bench = Bench::start(&configuration(store, &secret)).await;
        get_each(&bench.client, 20, "/all", &[PLAIN], 200).await;
        for _ in 0..30 {
            let refused = ask(&bench.client, "/all", &[PLAIN]).await;
            assert_eq!(told(&refused), shown(429, 20, 0));
            assert_eq!(ask(&bench.client, "/all", &[GOLD]).await.status, 200);
        }
        let refused = ask(&bench.client, "/all", &[GOLD]).await;
        assert_eq!(told(&refused), shown(429, 30, 0));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn nothing_that_a_client_sends_gives_it_a_plan() {
    let secret = secret_file();
    let bench = Bench::start(&configuration("", &secret)).await;
    let other = json!({ "sub": "plain", "exp": FAR, "tier": "gold" });
    let forged = format!("Bearer {}", token("another secret", &other));
    let genuine = bearer("plain", json!("gold"));
    for (left, more) in [
        (2, ("x-plan", "gold")),
        (1, ("authorization", &*forged)),
        // The key names the client, and so the plan.
        (0, ("authorization", &*genuine)),
    ] {
        let answer = ask(&bench.client, "/month", &[PLAIN, more]).await;
        assert_eq!(told(&answer), shown(200, 3, left), "{more:?}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_plan_that_nobody_defined_is_none_and_is_counted_and_told_once() {
    let (secret, upstream) = (secret_file(), Upstream::ok());
    let yaml = configuration("", &secret).replace("UPSTREAM", &upstream.url());
    let gateway = GatewayProcess::start(&yaml).await;
    let client = Client::new(gateway.address);
    for user in ["1", "2"] {
        let bearer = bearer(user, json!("platinum"));
        let answer = ask(&client, "/month", &[("authorization", &bearer)]).await;
        assert_eq!(told(&answer), shown(200, 3, 2));
    }
    let many = (0..100).map(|number| json!(format!("plan-{number}")));
    for plan in many {
        let bearer = bearer("3", plan);
        ask(&client, "/month", &[("authorization", &bearer)]).await;
    }
    let gold = ("authorization", bearer("4", json!("gold")));
    assert_eq!(
        ask(&client, "/month", &[(gold.0, &gold.1)]).await.status,
        200
    );
    let access = "\"target\":\"access\"";
    let last = gateway.process.wait_for_nth_line(access, 103, LONG).await;
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        (&last["client"], &last["plan"]),
        (&json!("user_id:4"), &json!("gold"))
    );
    let lines = gateway.process.output();
    let of = |plan: &str| {
        let told = format!("\"plan\":\"{plan}\"");
        lines.iter().filter(|line| line.contains(&told)).count()
    };
    assert_eq!(of("platinum"), 1);
    let warnings = lines.iter().filter(|line| line.contains("is not defined"));
    assert_eq!(warnings.count(), 64, "made-up names do not fill the log");
    let counted = "tidegate_unknown_plans_total";
    assert_eq!(sample(gateway.admin, counted).await, 102);
}

#[tokio::test]
async fn operators_are_told_a_clients_plan() {
    on_both_stores(async |store| {
        let secret = secret_file();
        let bench = Bench::start(&configuration(store, &secret)).await;
        get_each(&bench.client, 4, "/both", &[GOLD], 200).await;
        let admin = Client::fresh(bench.gateway.admin);
        let show = async |method, path: &str| -> Value {
            let answer = send(&admin, method, &format!("/clients/{path}"), &[]).await;
            assert_eq!(answer.status, 200);
            serde_json::from_str(answer.text()).unwrap()
        };
        let gold = show(Method::GET, "api_key:gold").await;
        assert_eq!(
            (&gold["plan"], &gold["unlimited"]),
            (&json!("gold"), &json!(["month"]))
        );
        let burst = &gold["limits"][0];
        assert_eq!(
            (&burst["name"], &burst["limit"], &burst["remaining"]),
            (&json!("burst"), &json!(12), &json!(8))
        );
        assert_eq!(gold["limits"].as_array().unwrap().len(), 1);
        assert_eq!(gold["per_plan"], json!(["all"]));
        let gold = show(Method::POST, "api_key:gold/reset").await;
        assert_eq!(gold["limits"][0]["remaining"], 12);

        let plain = show(Method::GET, "api_key:plain").await;
        assert_eq!((plain.get("plan"), &plain["unlimited"]), (None, &json!([])));
        assert_eq!(plain["plan_by_token"], false);
        let user = show(Method::GET, "user_id:42").await;
        assert_eq!(
            (user.get("plan"), &user["plan_by_token"]),
            (None, &json!(true))
        );
        bench.stop().await;
    })
    .await;
}
