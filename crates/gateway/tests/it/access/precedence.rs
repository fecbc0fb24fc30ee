//! Nobody gets more by being listed twice: each row of the table in docs/access.md.

use http::StatusCode;
use serde_json::json;

use crate::callers::{FAR, JWT, TOKEN_KEY, TRUST, ask, at, bearer_of, left, listed, token};
use crate::kit::{Bench, on_both_stores, shown, told};
use crate::overrides::{clear, plan, set};

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
        let keys = ["exempt", "plain", "small", "large"].map(|name| match name {
            "large" => listed(name).replace(" }", ", plan: large }"),
            _ => listed(name),
        });
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients:
  - jwt: {{ {JWT}, plan_claim: tier }}
  - api_key: {{ unknown: reject, keys: [{}] }}
{REST}",
            keys.join(", ")
        ))
        .await;
        let client = tidegate_testkit::Client::new(bench.gateway.address).knows("www-authenticate");
        // The case, the target, the address; the token's user, with a plan or a list of plans; the key; and the answer: the
        // limit's number, or what is said instead.
        for row in [
            "deny and exempt, by address | / | 192.0.2.1 | - | - | forbidden",
            "deny and exempt of a route | /exempt | 198.51.100.1 | 66 | - | forbidden",
            "deny, and an exempt key | / | 192.0.2.9 | - | exempt | forbidden",
            "a denied user with a key | / | 198.51.100.2 | 66 | plain | forbidden",
            "a user with an exempt key | / | 198.51.100.3 | 1 | exempt | 9",
            "an exempt key alone | / | 198.51.100.4 | - | exempt | exempt",
            "an exempt address, a wrong key | / | 203.0.113.1 | - | wrong | unauthorized",
            "an exempt address without a key | /required | 203.0.113.2 | - | - | unauthorized",
            "allowed and denied | /allowed | 192.0.2.2 | - | small | forbidden",
            "exempt and not allowed | /allowed | 203.0.113.200 | - | - | forbidden",
            "exempt and allowed by its address | /allowed | 203.0.113.100 | - | - | exempt",
            "a token that names the client, and an allowed key | /allowed | 198.51.100.8 | 2 | small | 9",
            "not allowed, without what is required | /allowed/required | 198.51.100.9 | - | - | unauthorized",
            "not allowed, with what is required | /allowed/required | 198.51.100.9 | - | small | forbidden",
            "exempt, with a plan | / | 203.0.113.3 | - | large | exempt",
            "a member whose key has a plan | / | 10.1.0.1 | - | large | 30",
            "a member whose token has a plan | / | 10.0.0.1 | 7 large | - | 30",
            "a member by name and by network | / | 10.1.0.2 | - | small | 10",
            "a network in a network | / | 10.1.0.3 | - | - | 20",
            "the larger network | / | 10.2.0.3 | - | - | 10",
            "a plan that is not defined | / | 10.1.0.4 | 8 none | - | 9",
            "a list of plans | / | 10.1.0.5 | 9 large+middle | - | 9",
            "a token and a key with a plan each | / | 198.51.100.6 | 10 middle | large | 20",
            "a token without a plan, a key with one | / | 198.51.100.7 | 11 | large | 9",
            "no member of any | / | 198.51.100.5 | - | - | 9",
        ] {
            let cells: Vec<_> = row.split(" | ").collect();
            let [what, target, address, user, key, expected] = cells[..] else {
                panic!("{row}");
            };
            let (sub, tier) = user.split_once(' ').unwrap_or((user, ""));
            let tier = match tier.split_once('+') {
                Some((one, other)) => json!([one, other]),
                None => json!(Some(tier).filter(|tier| !tier.is_empty())),
            };
            let bearer = bearer_of(&json!({ "sub": sub, "exp": FAR, "tier": tier }));
            let key_text = format!("{key}-key");
            let mut headers = vec![("x-forwarded-for", address)];
            headers.extend((user != "-").then_some(("authorization", &*bearer)));
            headers.extend((key != "-").then_some(("x-api-key", &*key_text)));
            let expected = match expected {
                "exempt" => (200, None, None),
                "forbidden" => (403, None, None),
                "unauthorized" => (401, None, None),
                limit => {
                    let limit = limit.parse().unwrap();
                    shown(200, limit, limit - 1)
                }
            };
            let answer = ask(&client, target, &headers).await;
            let found = match answer.status {
                // What a 401 was charged is not told.
                StatusCode::UNAUTHORIZED => (401, None, None),
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
        let bench = Bench::start(&format!(
            "
{store}
{TRUST}
clients:
  - jwt: {{ {JWT}, plan_claim: tier }}
  - api_key: {{ keys: [{}, {}, {}] }}
{REST}",
            listed("exempt"),
            listed("small"),
            listed("large").replace(" }", ", plan: large }"),
        ))
        .await;
        let admin = bench.gateway.admin;
        let bearer = bearer_of(&json!({ "sub": "1", "exp": FAR, "tier": "large" }));
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
        let jwt = format!("{JWT}, claims: [tenant]");
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
            token(TOKEN_KEY, &claims)
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
