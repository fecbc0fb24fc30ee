//! Limits per claim of a verified token.

use serde_json::{Value, json};
use tidegate_testkit::Client;

use crate::callers::{FAR, JWT, TOKEN_KEY, at, left, token};
use crate::kit::{Bench, get, on_both_stores};

/// A gateway with a limit of 100 per tenant, and one of 1,000 per client and organisation.
async fn verifying(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
clients:
  - jwt: {{ {JWT}, claims: [tenant, org.id] }}
limits:
  tenant: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [\"claim:tenant\"] }}
  org: {{ fixed_window: {{ limit: 1000, window: 31d }}, per: [client, \"claim:org.id\"] }}
routes:
  - {{ path: /tenant, upstream: UPSTREAM, limits: [tenant] }}
  - {{ path: /org, upstream: UPSTREAM, limits: [org] }}
"
    ))
    .await
}

fn signed(secret: &str, user: &str, more: Value) -> String {
    let mut claims = json!({ "sub": user, "exp": FAR });
    let more = more.as_object().cloned().unwrap();
    claims.as_object_mut().unwrap().extend(more);
    format!("Bearer {}", token(secret, &claims))
}

fn bearer(user: &str, more: Value) -> String {
    signed(TOKEN_KEY, user, more)
}

async fn left_with(client: &Client, path: &str, bearer: &str) -> u64 {
    left(client, path, &[("authorization", bearer)]).await
}

async fn of_tenants(store: &str) {
    let bench = verifying(store).await;
    let (one, other) = (at(&bench, 2), at(&bench, 3));
    let acme = |user| bearer(user, json!({ "tenant": "acme" }));
    assert_eq!(left_with(&one, "/tenant", &acme("1")).await, 99);
    assert_eq!(left_with(&other, "/tenant", &acme("2")).await, 98);
    let only = bearer("1", json!({ "tenant": ["acme"] }));
    assert_eq!(left_with(&one, "/tenant", &only).await, 97);
    let umbrella = bearer("1", json!({ "tenant": "umbrella" }));
    assert_eq!(left_with(&one, "/tenant", &umbrella).await, 99);
    let both = |tenants: [&str; 2]| bearer("1", json!({ "tenant": tenants }));
    let set = both(["umbrella", "acme"]);
    assert_eq!(left_with(&one, "/tenant", &set).await, 99);
    let set = both(["acme", "umbrella"]);
    assert_eq!(left_with(&other, "/tenant", &set).await, 98);
    bench.stop().await;
}

#[tokio::test]
async fn the_users_of_a_tenant_share_its_budget() {
    on_both_stores(of_tenants).await;
}

async fn of_nobody(store: &str) {
    let bench = verifying(store).await;
    let (one, other) = (at(&bench, 2), at(&bench, 3));
    let forged = signed(
        "a secret that nobody believes in",
        "1",
        json!({ "tenant": "acme" }),
    );
    let nothing = bearer("1", json!({ "team": "acme", "tenant": null }));
    // Without a claim that is verified, the address counts, whatever else is there.
    let mut expected = 99;
    for headers in [
        &[][..],
        &[("authorization", &*forged)],
        &[("authorization", &*nothing)],
        &[("tenant", "acme"), ("x-tenant", "acme")],
    ] {
        assert_eq!(
            left(&one, "/tenant", headers).await,
            expected,
            "{headers:?}"
        );
        expected -= 1;
    }
    assert_eq!(left(&other, "/tenant", &[]).await, 99);
    let acme = bearer("1", json!({ "tenant": "acme" }));
    assert_eq!(
        left_with(&one, "/tenant", &acme).await,
        99,
        "nobody spent it"
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_request_without_the_claim_counts_by_its_address() {
    on_both_stores(of_nobody).await;
}

async fn of_organisations(store: &str) {
    let bench = verifying(store).await;
    let client = at(&bench, 2);
    let of = |user, org: u64| bearer(user, json!({ "org": { "id": org } }));
    assert_eq!(left_with(&client, "/org", &of("1", 7)).await, 999);
    assert_eq!(left_with(&client, "/org", &of("1", 7)).await, 998);
    assert_eq!(left_with(&client, "/org", &of("1", 8)).await, 999);
    assert_eq!(left_with(&client, "/org", &of("2", 7)).await, 999);
    bench.stop().await;
}

#[tokio::test]
async fn a_claim_in_an_object_splits_the_budget_of_a_client() {
    on_both_stores(of_organisations).await;
}

/// A token is not verified for an address that is refused anyway, and a limit per claim is no limit per address.
#[tokio::test]
async fn a_limit_per_claim_and_address_needs_the_token_first() {
    let bench = Bench::start(&format!(
        "
clients:
  - jwt: {{ {JWT}, claims: [tenant] }}
limits:
  both: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [ip, \"claim:tenant\"] }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [both] }}
"
    ))
    .await;
    let client = at(&bench, 2);
    for tenant in ["acme", "umbrella"] {
        let token = bearer("1", json!({ "tenant": tenant }));
        let headers = [("authorization", &*token)];
        assert_eq!(get(&client, "/", &headers).await, 200, "{tenant}");
        assert_eq!(get(&client, "/", &headers).await, 429, "{tenant}");
    }
    bench.stop().await;
}
