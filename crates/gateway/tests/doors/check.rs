//! `/v1/check`: questions of programs.

use serde_json::json;

use crate::kit::*;

const TWO: &str = "
clients: [{ user_id: { header: X-User-Id } }, ip: {}]
trusted_proxies: [127.0.0.1]
limits:
  calls: { fixed_window: { limit: 3, window: 31d } }
  tenant: { fixed_window: { limit: 2, window: 31d }, per: [\"header:X-Tenant\"] }
routes: [{ name: all, path: /**, upstream: UPSTREAM, limits: [calls] }]
";

#[tokio::test]
async fn a_program_and_a_proxied_client_share_one_budget() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{TWO}")).await;
        let of_user = |name: &str| json!({ "limits": ["calls"], "client": name });
        let first = doors.check(of_user("user_id:7")).await;
        assert_eq!(first["admitted"], true);
        assert_eq!(first["limits"][0]["name"], "calls");
        assert_eq!(first["limits"][0]["limit"], 3);
        assert_eq!(first["limits"][0]["remaining"], 2);
        assert_eq!(first["decided_by"], "store");
        // The client itself.
        let answer = send(&doors.client, http::Method::GET, "/", &[("x-user-id", "7")]).await;
        assert_eq!(answer.status, 200);
        // The route's limits, by its name.
        let by_route = json!({ "route": "all", "client": "user_id:7" });
        let third = doors.check(by_route.clone()).await;
        assert_eq!(third["limits"][0]["remaining"], 0);
        for check in [by_route, of_user("user_id:7")] {
            let refused = doors.check(check).await;
            assert_eq!(refused["admitted"], false);
            assert_eq!(refused["refused_by"], json!(["calls"]));
            assert!(refused["retry_after"].as_u64() > Some(0), "{refused}");
            assert_eq!(refused["limits"][0]["refused"], true);
        }
        let answer = send(&doors.client, http::Method::GET, "/", &[("x-user-id", "7")]).await;
        assert_eq!(answer.status, 429);
        let other = doors.check(of_user("user_id:8")).await;
        assert_eq!(other["admitted"], true);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn all_limits_of_a_check_are_charged_or_none() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{TWO}")).await;
        let check = json!({
            "limits": ["calls", "tenant"], "client": "user_id:7", "per": { "header:X-Tenant": "a" }
        });
        for _ in 0..2 {
            assert_eq!(doors.check(check.clone()).await["admitted"], true);
        }
        for _ in 0..3 {
            let refused = doors.check(check.clone()).await;
            assert_eq!(refused["refused_by"], json!(["tenant"]), "{refused}");
        }
        let looked = doors.look("limit=calls&client=user_id:7").await;
        assert_eq!(looked["limits"][0]["remaining"], 1);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_look_charges_nothing_and_says_what_a_check_would() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{TWO}")).await;
        for _ in 0..5 {
            let query = "limit=tenant&per=header:X-Tenant%3Da%26b&cost=2";
            let looked = doors.look(query).await;
            assert_eq!(looked["admitted"], true);
            assert_eq!(looked["limits"][0]["remaining"], 2);
            assert!(looked.get("request_id").is_none(), "{looked}");
        }
        let spent = doors
            .check(json!({ "limits": ["tenant"], "per": { "header:X-Tenant": "a&b" }, "cost": 2 }))
            .await;
        assert_eq!(spent["limits"][0]["remaining"], 0);
        let looked = doors.look("limit=tenant&per=header:X-Tenant%3Da%26b").await;
        assert_eq!(looked["admitted"], false);
        assert_eq!(looked["refused_by"], json!(["tenant"]));
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_batch_is_decided_in_order_each_check_by_itself() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{TWO}")).await;
        let user = |nth: usize| format!("user_id:{}", nth % 100);
        let checks: Vec<_> = (0..1_000)
            .map(|nth| json!({ "limits": ["calls"], "client": user(nth) }))
            .collect();
        let (status, answer) = doors.call("/v1/check", &json!({ "checks": checks })).await;
        assert_eq!(status, 200);
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), 1_000);
        let admitted = results.iter().filter(|it| it["admitted"] == true).count();
        assert_eq!(admitted, 300);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn plans_denials_and_exemptions_apply() {
    let yaml = "
clients: [{ user_id: { header: X-User-Id } }, ip: {}]
trusted_proxies: [127.0.0.1]
plans: { gold: { calls: { fixed_window: { limit: 9, window: 31d } } } }
exempt: [user_id:monitor, 10.0.0.0/8]
deny: [user_id:bad, 203.0.113.0/24]
limits:
  calls: { fixed_window: { limit: 1, window: 31d }, exempt: [user_id:own] }
routes: [{ path: /**, upstream: UPSTREAM, limits: [calls] }]
";
    on_both_stores(async |store| {
        let yaml = yaml.replace("gold: { calls", "gold: { members: [user_id:rich], calls");
        let doors = Doors::start("", &format!("{store}{yaml}")).await;
        let check = async |name: &str| {
            let check = json!({ "limits": ["calls"], "client": name, "cost": 1 });
            let result = doors.check(check).await;
            let limit = result["limits"][0]["limit"].as_u64();
            (result["admitted"] == true, limit, result["error"].clone())
        };
        assert_eq!(check("user_id:rich").await.1, Some(9));
        for name in ["user_id:monitor", "user_id:own", "ip:10.1.2.3"] {
            for _ in 0..3 {
                let (admitted, limit, _) = check(name).await;
                assert_eq!((admitted, limit), (true, None), "{name}");
            }
        }
        for name in ["user_id:bad", "ip:203.0.113.9"] {
            let (admitted, _, error) = check(name).await;
            assert_eq!((admitted, error), (false, json!("denied")), "{name}");
        }
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_cost_that_never_fits_is_an_error_and_charges_nothing() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{TWO}")).await;
        let check = |cost: u64| json!({ "limits": ["calls"], "client": "user_id:7", "cost": cost });
        for cost in [4, (1 << 53) - 1] {
            let refused = doors.check(check(cost)).await;
            assert_eq!(refused["admitted"], false, "{cost}");
            assert_eq!(refused["refused_by"], json!(["calls"]), "{cost}");
            assert_eq!(refused["error"], "cost_exceeds_limit", "{cost}");
        }
        assert_eq!(doors.check(check(3)).await["admitted"], true);
        doors.stop().await;
    })
    .await;
}

/// A name under `per` names the client as a request with this name would.
#[tokio::test]
async fn a_name_without_a_client_has_its_plan() {
    let yaml = "
clients: [{ user_id: { header: X-User-Id } }, ip: {}]
trusted_proxies: [127.0.0.1]
plans: { gold: { members: [user_id:rich], calls: { fixed_window: { limit: 9, window: 31d } } } }
limits:
  calls: { fixed_window: { limit: 1, window: 31d }, per: [user_id] }
  each: { fixed_window: { limit: 2, window: 31d } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [calls] }]
";
    let doors = Doors::start("", &format!("store: memory\n{yaml}")).await;
    let check = json!({ "limits": ["calls"], "per": { "user_id": "rich", "ip": "192.0.2.1" } });
    let result = doors.check(check).await;
    assert_eq!(result["limits"][0]["limit"], 9);
    // The name alone is enough for a limit that is counted per client.
    let check = json!({ "limits": ["each"], "per": { "user_id": "poor" } });
    for remaining in [1, 0] {
        let result = doors.check(check.clone()).await;
        assert_eq!(result["limits"][0]["remaining"], remaining);
    }
    let looked = doors.look("limit=each&client=user_id:poor").await;
    assert_eq!(looked["limits"][0]["remaining"], 0);
    let headers = [("x-user-id", "rich")];
    let answer = send(&doors.client, http::Method::GET, "/", &headers).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("7"));
    doors.stop().await;
}

#[tokio::test]
async fn an_override_applies_at_once() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{TWO}")).await;
        let check = json!({ "limits": ["calls"], "client": "user_id:7" });
        let set = async |wanted: serde_json::Value| {
            let admin = tidegate_testkit::Client::fresh(doors.gateway.admin).knows("etag");
            let wanted = tidegate_testkit::body::full(wanted.to_string());
            let path = "/overrides/user_id:7";
            let answer = send_body(&admin, http::Method::PUT, path, &[], wanted).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        };
        set(json!({ "action": "block", "for": "never" })).await;
        until("the client is blocked", async || {
            doors.check(check.clone()).await["error"] == "denied"
        })
        .await;
        set(json!({ "action": "exempt", "for": "never" })).await;
        until("the client is exempt", async || {
            let result = doors.check(check.clone()).await;
            result["admitted"] == true && result["limits"] == json!([])
        })
        .await;
        doors.stop().await;
    })
    .await;
}
