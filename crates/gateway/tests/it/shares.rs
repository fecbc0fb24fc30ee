//! The shares of members in a limit that all clients share. The bucket refills in a hundred hours, so the tests need no time.

use http::Method;
use serde_json::{Value, json};
use tidegate_testkit::{Client, RedisServer, Upstream};

use crate::access_log::lines;
use crate::kit::{exact, get_each, on_both_stores, page, send};
use crate::overrides::set;
use crate::status::when;
use crate::support::GatewayProcess;

fn yaml(store: &str, upstream: &Upstream) -> String {
    format!(
        "{store}secret: the same for all
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}, {{ ip: {{}} }}]
plans:
  gold: {{ members: [user_id:big], pool: {{ weight: 4 }} }}
  free: {{ members: [user_id:staff], pool: unlimited }}
limits:
  pool: {{ token_bucket: {{ capacity: 100, refill: 1/h }}, per: [], share: {{ by: [client], weight: plan }} }}
routes:
  - {{ path: /**, upstream: \"{}\", limits: [pool] }}
",
        upstream.url()
    )
}

async fn start(store: &str) -> (Upstream, GatewayProcess) {
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&yaml(store, &upstream)).await;
    (upstream, gateway)
}

/// A user's requests at these gateways in turn, until one is refused: how many were admitted, and the refusal's body.
async fn until_refused(gateways: &[&GatewayProcess], user: &str) -> (usize, Value) {
    let clients: Vec<Client> = gateways
        .iter()
        .map(|gateway| Client::new(gateway.address))
        .collect();
    for count in 0..=100 {
        let client = &clients[count % clients.len()];
        let answer = send(client, Method::GET, "/", &[("x-user-id", user)]).await;
        if answer.status == 429 {
            let body = serde_json::from_str(answer.text()).unwrap();
            return (count, body);
        }
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    panic!("{user} was never refused");
}

async fn admits(gateway: &GatewayProcess, user: &str, times: usize, status: u16) {
    let client = Client::new(gateway.address);
    get_each(&client, times, "/", &[("x-user-id", user)], status).await;
}

#[tokio::test]
async fn a_greedy_member_leaves_units_for_the_others() {
    on_both_stores(async |store| {
        let (_upstream, gateway) = start(store).await;
        // After 80 requests, 20 units are left, and the level is 8 x 100 x 0.19^2 = 28.9. The first 51 requests are not counted.
        let (admitted, refusal) = until_refused(&[&gateway], "greedy").await;
        assert_eq!(admitted, 80);
        assert_eq!(refusal["violated-policies"], json!(["pool/share"]));
        // Other members are admitted: the greedy one is not.
        for user in ["a", "b", "c"] {
            admits(&gateway, user, 3, 200).await;
        }
        admits(&gateway, "greedy", 2, 429).await;
        // Eleven are left, and the level is 8. An unlimited plan takes none of them.
        admits(&gateway, "staff", 30, 200).await;
        admits(&gateway, "d", 3, 200).await;
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        for line in [
            "tidegate_decisions_total{limit=\"pool\",verdict=\"refused\",decided_by=\"store\"} 0\n",
            "tidegate_limit_used_ratio{limit=\"pool\"} ",
        ] {
            assert!(metrics.contains(line), "{line}\n{metrics}");
        }
        assert!(
            metrics.contains("limit=\"pool/share\",verdict=\"refused\""),
            "{metrics}"
        );
        let last = lines(&gateway, 80 + 1 + 9 + 2 + 30 + 3).await;
        let refused: Vec<_> = last.iter().filter(|line| line["status"] == 429).collect();
        assert_eq!(refused.len(), 3);
        assert!(
            refused.iter().all(|line| line["limit"] == "pool/share"),
            "{refused:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn operators_see_the_level_once_members_may_be_refused() {
    on_both_stores(async |store| {
        let (_upstream, gateway) = start(store).await;
        let level = "tidegate_share_level{limit=\"pool/share\"} ";
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        assert!(!metrics.contains(level), "{metrics}");
        until_refused(&[&gateway], "greedy").await;
        // Twenty units are left: 8 x 100 x 0.19^2 = 28.88.
        when(gateway.admin, "the level is sampled", |status| {
            let mut limits = status.limits.iter();
            let share = limits.find(|limit| limit.name == "pool/share");
            let level = share.and_then(|share| share.level);
            level.is_some_and(|level| (level - 28.88).abs() < 0.01)
        })
        .await;
        let (_, metrics) = page(gateway.admin, "/metrics").await;
        assert!(metrics.contains(&format!("{level}28.8")), "{metrics}");
    })
    .await;
}

#[tokio::test]
async fn a_plan_gives_its_members_more_weight() {
    on_both_stores(async |store| {
        let (_upstream, gateway) = start(store).await;
        // After 89 requests the level is 4 x 8 x 100 x 0.1^2 = 32, and 38 requests are counted.
        let (admitted, _) = until_refused(&[&gateway], "big").await;
        assert_eq!(admitted, 89);
        admits(&gateway, "small", 3, 200).await;
    })
    .await;
}

#[tokio::test]
async fn two_gateways_divide_one_limit() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = yaml(&exact(&redis), &upstream);
    let one = GatewayProcess::start(&yaml).await;
    let other = GatewayProcess::start(&yaml).await;
    let (admitted, _) = until_refused(&[&one, &other], "greedy").await;
    assert_eq!(admitted, 80);
    admits(&one, "a", 3, 200).await;
    admits(&other, "b", 3, 200).await;
    admits(&one, "greedy", 1, 429).await;
    admits(&other, "greedy", 1, 429).await;
}

#[tokio::test]
async fn shares_follow_numbers_that_are_set_at_run_time() {
    on_both_stores(async |store| {
        let (_upstream, gateway) = start(store).await;
        let numbers = json!({ "limits": { "pool": "capacity: 10, refill: 1/h" }, "reason": "a test", "for": "1h" });
        set(gateway.admin, "limit:pool", numbers).await;
        // After 8 requests, two units are left, the level is 8 x 10 x 0.1^2 = 0.8, and 2 requests are counted.
        let (admitted, refusal) = until_refused(&[&gateway], "greedy").await;
        assert_eq!(admitted, 8);
        assert_eq!(refusal["violated-policies"], json!(["pool/share"]));
        admits(&gateway, "a", 1, 200).await;
    })
    .await;
}

/// A client whose numbers an operator has set has a budget of its own, also if the numbers are those of the limit.
#[tokio::test]
async fn a_budget_of_its_own_has_no_share() {
    on_both_stores(async |store| {
        let (_upstream, gateway) = start(store).await;
        let numbers = json!({ "limits": { "pool": "capacity: 99, refill: 1/h" }, "reason": "a test", "for": "1h" });
        set(gateway.admin, "user_id:own", numbers).await;
        let (admitted, refusal) = until_refused(&[&gateway], "own").await;
        assert_eq!(admitted, 99);
        assert_eq!(refusal["violated-policies"], json!(["pool"]));
    })
    .await;
}

#[tokio::test]
async fn a_reset_of_a_member_drops_what_it_has_used() {
    on_both_stores(async |store| {
        let (_upstream, gateway) = start(store).await;
        until_refused(&[&gateway], "greedy").await;
        let client = Client::new(gateway.admin);
        let reset = send(&client, Method::POST, "/clients/user_id:greedy/reset", &[]).await;
        assert_eq!(reset.status, 200, "{}", reset.text());
        assert!(!reset.text().contains("pool/share"), "{}", reset.text());
        // The member has used no unit, and 29 are left.
        admits(&gateway, "greedy", 5, 200).await;
    })
    .await;
}
