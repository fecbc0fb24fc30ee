//! Gateways on a Redis: what an override costs it, and slices that are out. `crates/overrides` tests how overrides are shared.

use super::*;
use crate::kit::{exact, get_each};
use crate::leased::{slices, slices_out};

fn yaml(redis: &RedisServer, upstream: &Upstream) -> String {
    let yaml = limited(&format!("{}secret: the same for both\n", exact(redis)));
    yaml.replace("UPSTREAM", &upstream.url())
}

/// Who is blocked or exempt costs Redis nothing, and who has another plan what everybody costs: one decision.
#[tokio::test]
async fn an_override_costs_no_command_of_redis() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let gateway = TestGateway::start(&yaml(&redis, &upstream)).await;
    let client = Client::new(gateway.address);
    set(gateway.admin, "198.51.100.0/24", block()).await;
    set(gateway.admin, "user_id:free", exempt()).await;
    set(gateway.admin, "user_id:gold", plan("gold")).await;
    let asked = async || sample(gateway.admin, "tidegate_store_duration_seconds_count").await;
    let before = asked().await;
    for _ in 0..7 {
        let from = ("x-forwarded-for", "198.51.100.7");
        assert_eq!(get(&client, "/", &[from]).await, 403);
        assert_eq!(get(&client, "/", &[("x-user-id", "free")]).await, 200);
    }
    assert_eq!(asked().await, before);
    get_each(&client, 7, "/", &[("x-user-id", "gold")], 200).await;
    assert_eq!(asked().await, before + 7);
    gateway.stop().await;
}

/// A gateway that starts has all overrides before it admits the first request.
#[tokio::test]
async fn a_new_gateway_has_them_from_its_first_request_on() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, &upstream);
    let first = TestGateway::start(&yaml).await;
    set(first.admin, "user_id:blocked", block()).await;
    for _ in 0..5 {
        let next = TestGateway::start(&yaml).await;
        let client = Client::new(next.address);
        assert_eq!(get(&client, "/", &[("x-user-id", "blocked")]).await, 403);
        next.stop().await;
    }
    first.stop().await;
}

/// A request in `mode: leased` is decided here: an override returns what was borrowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn borrowed_slices_are_returned() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&redis, &upstream).replace(
        "fixed_window: { limit: 3, window: 31d } }\n",
        "token_bucket: { capacity: 1000, refill: 1/d }, mode: leased }\n",
    );
    let yaml = yaml.replace(
        "fixed_window: { limit: 9, window: 31d }",
        "token_bucket: { capacity: 9000, refill: 1/d }",
    );
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    // A slice that nobody uses is returned after some seconds, too. So other clients, which stopped earlier, must still have theirs. Once
    // a slow machine may take longer than these seconds.
    let mut recalled = 0;
    for round in 0..6 {
        let mut borrowed = Vec::new();
        for name in ["one", "two", "three", "blocked"] {
            let known = slices(&redis).await;
            let id = format!("{name}-{round}");
            get_each(&client, 40, "/", &[("x-user-id", &id)], 200).await;
            let keys = slices(&redis).await.into_iter();
            borrowed.extend(keys.filter(|key| !known.contains(key)));
        }
        let [one, two, three, blocked] = &*borrowed else {
            panic!("{borrowed:?}");
        };
        set(gateway.admin, &format!("user_id:blocked-{round}"), block()).await;
        until("all that was not spent is returned", async || {
            slices_out(&redis, blocked).await == 0
        })
        .await;
        let mut are_out = true;
        for key in [one, two, three] {
            are_out &= slices_out(&redis, key).await > 0;
        }
        recalled += usize::from(are_out);
    }
    assert!(recalled >= 5, "{recalled} of 6");
    gateway.stop().await;
}
