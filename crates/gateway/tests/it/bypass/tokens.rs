use serde_json::json;
use tidegate_testkit::{Client, RedisServer};

use crate::callers::{FAR, JWT, at, bearer_of, limit_keys, listed, token};
use crate::kit::{Bench, exact, get, number, on_both_stores, sample, send, until};

/// A gateway that verifies tokens, with these limits, of which a route has these; `always` has those.
async fn verifying(store: &str, limits: &str, always: &str, route: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
clients:
  - jwt: {{ {JWT}, invalid: reject, plan_claim: plan }}
  - api_key: {{ keys: [{}] }}
plans: {{ gold: {{ free: unlimited }} }}
limits:
{limits}
  free: {{ fixed_window: {{ limit: 2, window: 31d }}, per: [ip] }}
always: [{always}]
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [{route}] }}
",
        listed("alpha"),
    ))
    .await
}

fn forged() -> String {
    let claims = json!({ "sub": "rider", "exp": FAR });
    format!("Bearer {}", token("another secret", &claims))
}

async fn with(client: &Client, bearer: &str) -> u16 {
    get(client, "/", &[("authorization", bearer)]).await
}

/// How many tokens were verified that name a plan which there is not, for that is counted.
async fn verified(bench: &Bench) -> u64 {
    sample(bench.gateway.admin, "tidegate_unknown_plans_total").await
}

async fn refused_first(store: &str) {
    let guard = "  guard: { fixed_window: { limit: 3, window: 31d }, per: [ip] }";
    let bench = verifying(store, guard, "guard", "").await;
    let client = at(&bench, 2);
    let unknown = bearer_of(&json!({ "sub": "rider", "exp": FAR, "plan": "lead" }));
    for seen in 1..=3 {
        assert_eq!(with(&client, &unknown).await, 200);
        assert_eq!(verified(&bench).await, seen);
    }
    // The first refusal is what can be remembered.
    assert_eq!(with(&client, &unknown).await, 429);
    let known = verified(&bench).await;
    for _ in 0..3 {
        let answer = send(
            &client,
            http::Method::GET,
            "/",
            &[("authorization", &unknown)],
        )
        .await;
        assert_eq!(answer.status, 429);
        assert_eq!(number(&answer, "x-ratelimit-limit"), Some(3));
        assert_eq!(number(&answer, "x-ratelimit-remaining"), Some(0));
        assert!(number(&answer, "retry-after") > Some(1));
        let details: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(details["violated-policies"], json!(["guard"]));
    }
    assert_eq!(
        verified(&bench).await,
        known,
        "a token was verified in vain"
    );
    // Another address is not refused, and its token is looked at.
    assert_eq!(with(&at(&bench, 3), &unknown).await, 200);
    assert_eq!(verified(&bench).await, known + 1);
    assert_eq!(bench.upstream.count(), 4);
    bench.stop().await;
}

#[tokio::test]
async fn an_address_that_is_refused_has_no_token_verified() {
    on_both_stores(refused_first).await;
}

/// A refusal that is given again without a question is not given for ever: Redis is asked once a second.
#[tokio::test]
async fn a_budget_that_begins_anew_elsewhere_is_seen_soon() {
    let redis = RedisServer::start().await;
    let guard = "  guard: { fixed_window: { limit: 1, window: 31d }, per: [ip] }";
    let bench = verifying(&exact(&redis), guard, "guard", "").await;
    let client = at(&bench, 2);
    let good = bearer_of(&json!({ "sub": "rider", "exp": FAR }));
    for status in [200, 429, 429] {
        assert_eq!(with(&client, &good).await, status);
    }
    for key in limit_keys(&redis).await {
        redis.command(&["DEL", &key]).await;
    }
    let (client, good) = (&client, &good);
    until("the new budget is spent", async || {
        with(client, good).await == 200
    })
    .await;
    assert_eq!(with(client, good).await, 429);
    bench.stop().await;
}

async fn on_the_route(store: &str) {
    let own = "  own: { fixed_window: { limit: 2, window: 31d }, per: [ip, route] }";
    let bench = verifying(store, own, "", "own").await;
    let client = at(&bench, 2);
    let good = bearer_of(&json!({ "sub": "rider", "exp": FAR }));
    // A token that is refused is charged to nothing but `always`.
    for _ in 0..3 {
        assert_eq!(with(&client, &forged()).await, 401);
    }
    for status in [200, 200, 429] {
        assert_eq!(with(&client, &good).await, status);
    }
    assert_eq!(with(&client, &forged()).await, 429);
    assert_eq!(with(&at(&bench, 3), &forged()).await, 401);
    assert_eq!(bench.upstream.count(), 2);
    bench.stop().await;
}

#[tokio::test]
async fn a_routes_own_limit_per_address_comes_first_as_well() {
    on_both_stores(on_the_route).await;
}

/// What depends on who is calling waits for that.
async fn by_whom(store: &str) {
    let limits = "
  watched: { fixed_window: { limit: 1, window: 31d }, per: [ip], action: observe }
  user: { fixed_window: { limit: 5, window: 31d }, per: [user_id] }";
    let bench = verifying(store, limits, "watched", "free, user").await;
    let client = at(&bench, 2);
    let plain = bearer_of(&json!({ "sub": "a", "exp": FAR }));
    let gold = bearer_of(&json!({ "sub": "b", "exp": FAR, "plan": "gold" }));
    for status in [200, 200, 429, 429] {
        assert_eq!(with(&client, &plain).await, status);
    }
    // For this plan the address has no limit, and the one that only observes refuses nobody.
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(with(&client, &gold).await, status);
    }
    assert_eq!(with(&client, &forged()).await, 401);
    assert_eq!(bench.upstream.count(), 7);
    bench.stop().await;
}

#[tokio::test]
async fn a_limit_that_a_plan_changes_waits_for_the_plan() {
    on_both_stores(by_whom).await;
}

/// A refusal that begins a block begins it, whatever comes with the request.
async fn blocks(store: &str) {
    let guard = "  guard: { fixed_window: { limit: 1, window: 1s }, per: [ip], block: 1h }";
    let bench = verifying(store, guard, "", "guard").await;
    let client = at(&bench, 2);
    let good = bearer_of(&json!({ "sub": "rider", "exp": FAR }));
    let headers = [("authorization", good.as_str())];
    let refusal = loop {
        // Two in one second come sooner or later.
        let answer = send(&client, http::Method::GET, "/", &headers).await;
        if answer.status == 429 {
            break answer;
        }
    };
    assert!(number(&refusal, "retry-after") > Some(3_000));
    let answer = send(&client, http::Method::GET, "/", &headers).await;
    assert!(number(&answer, "retry-after") > Some(3_000));
    assert_eq!(with(&client, &forged()).await, 429);
    bench.stop().await;
}

#[tokio::test]
async fn a_refusal_that_begins_a_block_begins_it() {
    on_both_stores(blocks).await;
}
