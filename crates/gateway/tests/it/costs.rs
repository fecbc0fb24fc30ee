//! What requests cost: fixed, or as a trusted proxy says, the same on both stores.

use serde_json::Value;

use crate::callers::{TRUST, ask, at};
use crate::kit::{Bench, number, on_both_stores, shown, tells_of_limits, told};

#[tokio::test]
async fn every_algorithm_charges_what_a_request_costs() {
    on_both_stores(async |store| {
        for quota in [
            "token_bucket: { capacity: 10, refill: 1/31d }",
            "leaky_bucket: { queue: 10, drain: 1/31d, nodelay: true }",
            "fixed_window: { limit: 10, window: 31d }",
            "sliding_window_log: { limit: 10, window: 31d }",
            "sliding_window_counter: { limit: 10, window: 31d }",
        ] {
            let bench = Bench::of_limit(store, &format!("{quota}, cost: 4")).await;
            for (status, left) in [(200, 6), (200, 2), (429, 2), (429, 2)] {
                let answer = bench.client.get("/").await;
                assert_eq!(told(&answer), shown(status, 10, left), "{quota}");
            }
            assert_eq!(bench.upstream.count(), 2);
            bench.stop().await;
        }
    })
    .await;
}

/// A limit of 10 beside one of 100 that costs 1, and a proxy at 127.0.0.1 that says what requests cost.
async fn by_header(store: &str, max: u64) -> Bench {
    Bench::start(&format!(
        "
{store}
{TRUST}
clients: [{{ user_id: {{}} }}]
limits:
  ten: {{ token_bucket: {{ capacity: 10, refill: 1/h }}, cost: {{ header: X-Cost, max: {max} }} }}
  hundred: {{ fixed_window: {{ limit: 100, window: 31d }} }}
routes:
  - {{ path: /both, upstream: UPSTREAM, limits: [hundred, ten] }}
  - {{ path: /hundred, upstream: UPSTREAM, limits: [hundred] }}
"
    ))
    .await
}

#[tokio::test]
async fn a_trusted_proxy_says_what_a_request_costs_and_nobody_else() {
    on_both_stores(async |store| {
        let bench = by_header(store, 5).await;
        let (proxy, stranger) = (at(&bench, 1), at(&bench, 2));
        for (cost, left) in [
            (&[][..], 9),
            (&["3"], 6),
            (&["many"], 5),
            (&["0"], 4),
            (&["1", "2"], 2),
        ] {
            let mut headers = vec![("x-user-id", "42")];
            headers.extend(cost.iter().map(|cost| ("x-cost", *cost)));
            let answer = ask(&proxy, "/both", &headers).await;
            assert_eq!(told(&answer), shown(200, 10, left), "{cost:?}");
            let answer = ask(&stranger, "/both", &[("x-cost", "5")]).await;
            assert_eq!(answer.status, 200);
        }
        // Above its bound it is its bound, here all of what five requests of the stranger have left.
        let headers = [("x-user-id", "43"), ("x-cost", "50")];
        let answer = ask(&proxy, "/both", &headers).await;
        assert_eq!(told(&answer), shown(200, 10, 5));
        let answer = ask(&stranger, "/both", &[("x-cost", "5")]).await;
        assert_eq!(told(&answer), shown(200, 10, 4));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_wait_is_that_of_the_requests_own_cost() {
    on_both_stores(async |store| {
        let bench = by_header(store, 10).await;
        let proxy = at(&bench, 1);
        for (user, cost, hours) in [("a", "3", 1), ("b", "5", 3), ("c", "10", 8)] {
            let used = [("x-user-id", user), ("x-cost", "8")];
            assert_eq!(ask(&proxy, "/both", &used).await.status, 200);
            let answer = ask(&proxy, "/both", &[("x-user-id", user), ("x-cost", cost)]).await;
            assert_eq!(told(&answer), shown(429, 10, 2));
            let wait = number(&answer, "retry-after").unwrap();
            assert!(
                (hours * 3_600 - 60..=hours * 3_600).contains(&wait),
                "{wait}"
            );
            // What is left is enough for less.
            let answer = ask(&proxy, "/both", &[("x-user-id", user), ("x-cost", "2")]).await;
            assert_eq!(told(&answer), shown(200, 10, 0));
        }
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_can_never_fit_is_a_bad_request_and_charged_to_nothing() {
    on_both_stores(async |store| {
        let bench = by_header(store, 50).await;
        let proxy = at(&bench, 1);
        let user = ("x-user-id", "42");
        for cost in ["11", "50", "99999999999999999999999"] {
            let answer = ask(&proxy, "/both", &[user, ("x-cost", cost)]).await;
            assert_eq!(answer.status, 400);
            assert!(!tells_of_limits(&answer) && answer.header("retry-after").is_none());
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(body["error"], "cost_exceeds_limit");
            assert_eq!(body["violated-policies"], serde_json::json!(["ten"]));
        }
        assert_eq!(bench.upstream.count(), 0);
        let answer = ask(&proxy, "/both", &[user, ("x-cost", "10")]).await;
        assert_eq!(told(&answer), shown(200, 10, 0));
        let answer = ask(&proxy, "/hundred", &[user]).await;
        assert_eq!(told(&answer), shown(200, 100, 98));
        bench.stop().await;
    })
    .await;
}
