//! Nobody gets more by being listed twice: each row of the table in docs/access.md.

use http::StatusCode;
use serde_json::json;

use crate::callers::{FAR, TRUST, ask, at, left, listed, token};
use crate::kit::{Bench, on_both_stores, shown, told};
use crate::overrides::{clear, plan, set};

const SECRET: &str = "hunter2 and 25 more characters";

/// Numbers of the plans `small`, `middle` and `large` beside the limit's own, 9.
const REST: &str = "
limits:
  own: { fixed_window: { limit: 9, window: 31d } }
always: [own]
plans:
  small: { members: [10.0.0.0/8, api_key:small], own: { fixed_window: { limit: 10, window: 31d } } }
  middle: { members: [10.1.0.0/16, \"user_id:7\"], own: { fixed_window: { limit: 20, window: 31d } } }
  large: { own: { fixed_window: { limit: 30, window: 31d } } }
exempt: [203.0.113.0/24, api_key:exempt, 192.0.2.1]
deny: [192.0.2.0/24, \"user_id:66\"]
routes:
  - { path: /required, upstream: UPSTREAM, require: api_key, exempt: [api_key:exempt] }
  - { path: /exempt, upstream: UPSTREAM, exempt: [\"user_id:66\"] }
  - { path: /allowed, upstream: UPSTREAM, allow: [192.0.2.0/24, 203.0.113.0/25, api_key:small, api_key:exempt] }
  - { path: /allowed/required, upstream: UPSTREAM, allow: [api_key:exempt], require: api_key }
  - { path: /**, upstream: UPSTREAM }
";

#[tokio::test]
async fn of_two_things_that_are_said_of_a_client_the_table_says_which_counts() {
    on_both_stores(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, SECRET).unwrap();
        let keys = ["exempt", "plain", "small", "large"].map(|name| match name {
            "large" => listed(name).replace(" }", ", plan: large }"),
            _ => listed(name),
        });
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients:
  - jwt: {{ algorithms: [HS256], key_file: \"{}\", plan_claim: tier }}
  - api_key: {{ unknown: reject, keys: [{}] }}
{REST}",
            file.display(),
            keys.join(", ")
        ))
        .await;
        let client = tidegate_testkit::Client::new(bench.gateway.address).knows("www-authenticate");
        let bearer = |user: &str, tier: serde_json::Value| {
            let claims = json!({ "sub": user, "exp": FAR, "tier": tier });
            format!("Bearer {}", token(SECRET, &claims))
        };
        let (nobody, key) = (String::new(), |name: &str| format!("{name}-key"));
        let plain = |id: &str| bearer(id, serde_json::Value::Null);
        let (exempt, forbidden) = ((200, None, None), (403, None, None));
        let unauthorized = (401, None, None);
        let with = |limit: u64| shown(200, limit, limit - 1);
        for (what, target, address, bearer, key, expected) in [
            (
                "deny and exempt, by address",
                "/",
                "192.0.2.1",
                &nobody,
                &nobody,
                forbidden,
            ),
            (
                "deny and exempt of a route",
                "/exempt",
                "198.51.100.1",
                &plain("66"),
                &nobody,
                forbidden,
            ),
            (
                "deny, and an exempt key",
                "/",
                "192.0.2.9",
                &nobody,
                &key("exempt"),
                forbidden,
            ),
            (
                "a denied user with a key",
                "/",
                "198.51.100.2",
                &plain("66"),
                &key("plain"),
                forbidden,
            ),
            (
                "a user with an exempt key",
                "/",
                "198.51.100.3",
                &plain("1"),
                &key("exempt"),
                with(9),
            ),
            (
                "an exempt key alone",
                "/",
                "198.51.100.4",
                &nobody,
                &key("exempt"),
                exempt,
            ),
            (
                "an exempt address, a wrong key",
                "/",
                "203.0.113.1",
                &nobody,
                &key("wrong"),
                unauthorized,
            ),
            (
                "an exempt address without a key",
                "/required",
                "203.0.113.2",
                &nobody,
                &nobody,
                unauthorized,
            ),
            (
                "allowed and denied",
                "/allowed",
                "192.0.2.2",
                &nobody,
                &key("small"),
                forbidden,
            ),
            (
                "exempt and not allowed",
                "/allowed",
                "203.0.113.200",
                &nobody,
                &nobody,
                forbidden,
            ),
            (
                "exempt and allowed by its address",
                "/allowed",
                "203.0.113.100",
                &nobody,
                &nobody,
                exempt,
            ),
            (
                "a token that names the client, and an allowed key",
                "/allowed",
                "198.51.100.8",
                &plain("2"),
                &key("small"),
                with(9),
            ),
            (
                "not allowed, without what is required",
                "/allowed/required",
                "198.51.100.9",
                &nobody,
                &nobody,
                unauthorized,
            ),
            (
                "not allowed, with what is required",
                "/allowed/required",
                "198.51.100.9",
                &nobody,
                &key("small"),
                forbidden,
            ),
            (
                "exempt, with a plan",
                "/",
                "203.0.113.3",
                &nobody,
                &key("large"),
                exempt,
            ),
            (
                "a member whose key has a plan",
                "/",
                "10.1.0.1",
                &nobody,
                &key("large"),
                with(30),
            ),
            (
                "a member whose token has a plan",
                "/",
                "10.0.0.1",
                &bearer("7", json!("large")),
                &nobody,
                with(30),
            ),
            (
                "a member by name and by network",
                "/",
                "10.1.0.2",
                &nobody,
                &key("small"),
                with(10),
            ),
            (
                "a network in a network",
                "/",
                "10.1.0.3",
                &nobody,
                &nobody,
                with(20),
            ),
            (
                "the larger network",
                "/",
                "10.2.0.3",
                &nobody,
                &nobody,
                with(10),
            ),
            (
                "a plan that is not defined",
                "/",
                "10.1.0.4",
                &bearer("8", json!("none")),
                &nobody,
                with(9),
            ),
            (
                "a list of plans",
                "/",
                "10.1.0.5",
                &bearer("9", json!(["large", "middle"])),
                &nobody,
                with(9),
            ),
            (
                "a token and a key with a plan each",
                "/",
                "198.51.100.6",
                &bearer("10", json!("middle")),
                &key("large"),
                with(20),
            ),
            (
                "a token without a plan, a key with one",
                "/",
                "198.51.100.7",
                &plain("11"),
                &key("large"),
                with(9),
            ),
            (
                "no member of any",
                "/",
                "198.51.100.5",
                &nobody,
                &nobody,
                with(9),
            ),
        ] {
            let mut headers = vec![("x-forwarded-for", address)];
            headers.extend(
                [("authorization", &**bearer)]
                    .iter()
                    .filter(|it| !it.1.is_empty()),
            );
            headers.extend([("x-api-key", &**key)].iter().filter(|it| !it.1.is_empty()));
            let answer = ask(&client, target, &headers).await;
            let found = match answer.status {
                // What a 401 was charged is not told.
                StatusCode::UNAUTHORIZED => unauthorized,
                _ => told(&answer),
            };
            assert_eq!(found, expected, "{what}");
        }
        bench.stop().await;
    })
    .await;
}

/// A plan by an override takes the place of any other, also of a larger one, with its own budget.
#[tokio::test]
async fn a_plan_by_override_and_another_have_a_budget_each() {
    on_both_stores(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, SECRET).unwrap();
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients:
  - jwt: {{ algorithms: [HS256], key_file: \"{}\", plan_claim: tier }}
  - api_key: {{ keys: [{}, {}, {}] }}
{REST}",
            file.display(),
            listed("exempt"),
            listed("small"),
            listed("large").replace(" }", ", plan: large }"),
        ))
        .await;
        let admin = bench.gateway.admin;
        let claims = json!({ "sub": "1", "exp": FAR, "tier": "large" });
        let bearer = format!("Bearer {}", token(SECRET, &claims));
        for (name, header, other) in [
            ("api_key:large", ("x-api-key", "large-key"), 30),
            ("user_id:1", ("authorization", &*bearer), 30),
            ("10.1.0.9", ("x-forwarded-for", "10.1.0.9"), 20),
        ] {
            let next = async || told(&ask(&bench.client, "/", &[header]).await);
            let shown = |limit, used| shown(200, limit, limit - used);
            assert_eq!(next().await, shown(other, 1), "{name}");
            set(admin, name, plan("small")).await;
            assert_eq!(next().await, shown(10, 1), "{name}");
            clear(admin, name).await;
            assert_eq!(next().await, shown(other, 2), "{name}");
        }
        bench.stop().await;
    })
    .await;
}

/// A key beside a token spends from both, and a token that is left out leads to the budget of the address.
#[tokio::test]
async fn a_claim_is_counted_whoever_names_the_client() {
    on_both_stores(async |store| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, SECRET).unwrap();
        let jwt = format!(
            "algorithms: [HS256], key_file: \"{}\", claims: [tenant]",
            file.display()
        );
        let bench = Bench::start(&format!(
            "
{store}
clients:
  - api_key: {{ keys: [{}, {}] }}
  - jwt: {{ {jwt} }}
  - jwt: {{ {jwt}, header: X-Second-Token }}
limits:
  own: {{ fixed_window: {{ limit: 1000, window: 31d }} }}
  tenant: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [\"claim:tenant\"] }}
routes:
  - {{ path: /own, upstream: UPSTREAM, limits: [own] }}
  - {{ path: /tenant, upstream: UPSTREAM, limits: [tenant] }}
",
            listed("acme"),
            listed("umbrella")
        ))
        .await;
        let (one, other) = (at(&bench, 2), at(&bench, 3));
        let signed = |user: &str, tenant: &str| {
            let claims = json!({ "sub": user, "exp": FAR, "tenant": tenant });
            token(SECRET, &claims)
        };
        let (first, second) = (signed("1", "a"), signed("2", "b"));
        let bearer = format!("Bearer {first}");
        let (token, twice) = (("authorization", &*bearer), ("x-second-token", &*second));
        let (acme, umbrella) = (("x-api-key", "acme-key"), ("x-api-key", "umbrella-key"));

        assert_eq!(left(&one, "/own", &[acme, token]).await, 999);
        assert_eq!(left(&one, "/own", &[acme]).await, 998, "the key");
        assert_eq!(left(&one, "/own", &[token]).await, 999, "the user");

        assert_eq!(left(&one, "/tenant", &[acme, token]).await, 99);
        assert_eq!(left(&other, "/tenant", &[umbrella, token]).await, 98);
        assert_eq!(
            left(&one, "/tenant", &[token, twice]).await,
            97,
            "the first"
        );
        assert_eq!(
            left(&one, "/tenant", &[twice]).await,
            99,
            "the second alone"
        );

        // Without a token no key, and no lack of one, leads to a budget of its own.
        assert_eq!(left(&one, "/tenant", &[acme]).await, 99);
        assert_eq!(left(&one, "/tenant", &[umbrella]).await, 98);
        assert_eq!(left(&one, "/tenant", &[]).await, 97);
        assert_eq!(left(&other, "/tenant", &[acme]).await, 99);
        bench.stop().await;
    })
    .await;
}
