//! Holds of programs: receipts, and their settlement.

use serde_json::json;

use crate::kit::*;

const YAML: &str = "
clients: [{ user_id: { header: X-User-Id } }, ip: {}]
trusted_proxies: [127.0.0.1]
limits:
  running: { concurrency: { limit: 2 } }
  tokens: { fixed_window: { limit: 100, window: 31d }, cost: { response_header: X-Cost, reserve: 40 } }
  many: { fixed_window: { limit: 1000000, window: 31d }, cost: { response_header: X-Cost, reserve: 1 } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [running] }]
";

#[tokio::test]
async fn a_place_is_held_until_it_is_settled() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{YAML}")).await;
        let check = json!({ "limits": ["running"], "client": "user_id:7", "hold": 600 });
        let mut receipts = Vec::new();
        for left in [1, 0] {
            let result = doors.check(check.clone()).await;
            assert_eq!(result["limits"][0]["remaining"], left);
            receipts.push(result["receipt"].as_str().unwrap().to_owned());
        }
        let refused = doors.check(check.clone()).await;
        assert_eq!(refused["admitted"], false);
        assert!(refused.get("receipt").is_none());
        let held = "tidegate_held_decisions{door=\"check\"}";
        assert_eq!(sample(doors.gateway.admin, held).await, 2);
        let settled = doors.settle(&receipts[0], None).await;
        assert_eq!(settled, json!({ "settled": true }));
        assert_eq!(sample(doors.gateway.admin, held).await, 1);
        until("a place is free", async || {
            doors.look("limit=running&client=user_id:7").await["admitted"] == true
        })
        .await;
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_real_cost_is_charged_once_by_its_receipt() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{YAML}")).await;
        let check = |cost: Option<u64>| {
            let mut check = json!({ "limits": ["tokens"], "client": "user_id:7", "hold": 600 });
            if let Some(cost) = cost {
                check["cost"] = cost.into();
            }
            check
        };
        let left = async || {
            let looked = doors.look("limit=tokens&client=user_id:7").await;
            looked["limits"][0]["remaining"].as_u64().unwrap()
        };
        let first = doors.check(check(None)).await;
        let second = doors.check(check(Some(30))).await;
        assert_eq!(left().await, 30);
        let receipt = |result: &serde_json::Value| result["receipt"].as_str().unwrap().to_owned();
        for (receipt, cost, settled) in [
            (receipt(&first), 5, true),
            (receipt(&first), 5, false),
            (receipt(&first).replace('-', "-0"), 5, false),
            (receipt(&second), 0, true),
        ] {
            let result = doors.settle(&receipt, Some(cost)).await;
            assert_eq!(result["settled"], settled, "{receipt}");
            if !settled {
                assert_eq!(result["error"], "unknown_receipt");
            }
        }
        until("95 are left", async || left().await == 95).await;
        // A cost beyond what is left is charged whole.
        let third = doors.check(check(None)).await;
        doors.settle(&receipt(&third), Some((1 << 53) - 1)).await;
        until("nothing is left", async || left().await == 0).await;
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn forged_receipts_and_those_of_other_gateways_settle_nothing() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{YAML}")).await;
        let other = Doors::start("", &format!("{store}{YAML}")).await;
        let check = json!({ "limits": ["running"], "client": "user_id:7", "hold": 600 });
        let receipt = doors.check(check).await["receipt"]
            .as_str()
            .unwrap()
            .to_owned();
        let (gateway, id) = receipt.split_once('-').unwrap();
        let forged = format!("{gateway}-{}", "0".repeat(32));
        let reversed: String = id.chars().rev().collect();
        for (text, error) in [
            ("", "unknown_receipt"),
            ("-", "unknown_receipt"),
            (&forged, "unknown_receipt"),
            (&format!("{gateway}-{reversed}"), "unknown_receipt"),
            (&format!("{gateway}-+{}", &id[1..]), "unknown_receipt"),
            (&format!("{}-{id}", "f".repeat(16)), "other_gateway"),
        ] {
            let result = doors.settle(text, None).await;
            assert_eq!(
                (&result["settled"], &result["error"]),
                (&json!(false), &json!(error)),
                "{text}"
            );
        }
        let result = other.settle(&receipt, None).await;
        assert_eq!(result["error"], "other_gateway");
        let looked = doors.look("limit=running&client=user_id:7").await;
        assert_eq!(looked["limits"][0]["remaining"], 1);
        assert_eq!(doors.settle(&receipt, None).await["settled"], true);
        doors.stop().await;
        other.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_late_receipt_has_charged_what_was_reserved() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{YAML}")).await;
        let check = json!({ "limits": ["tokens", "running"], "client": "user_id:7", "hold": 1 });
        let receipt = doors.check(check).await["receipt"]
            .as_str()
            .unwrap()
            .to_owned();
        until("the place is free again", async || {
            let looked = doors.look("limit=running&client=user_id:7").await;
            looked["limits"][0]["remaining"] == 2
        })
        .await;
        let result = doors.settle(&receipt, Some(1)).await;
        assert_eq!(result["error"], "unknown_receipt");
        let looked = doors.look("limit=tokens&client=user_id:7").await;
        assert_eq!(looked["limits"][0]["remaining"], 60);
        doors.stop().await;
    })
    .await;
}

#[tokio::test]
async fn without_a_hold_a_known_cost_is_charged_at_once() {
    on_both_stores(async |store| {
        let doors = Doors::start("", &format!("{store}{YAML}")).await;
        let check = json!({ "limits": ["tokens"], "client": "user_id:7", "cost": 7 });
        let result = doors.check(check).await;
        assert!(result.get("receipt").is_none(), "{result}");
        until("7 are charged", async || {
            let looked = doors.look("limit=tokens&client=user_id:7").await;
            looked["limits"][0]["remaining"] == 93
        })
        .await;
        doors.stop().await;
    })
    .await;
}

/// A quarter of the receipts is the most that one address can take, so the programs of others get theirs.
#[tokio::test]
async fn a_greedy_program_leaves_receipts_for_others() {
    let doors = Doors::start("", &format!("store: memory\n{YAML}")).await;
    let check = json!({ "limits": ["many"], "client": "user_id:7", "hold": 3600 });
    let batch = json!({ "checks": vec![&check; 1_000] });
    for _ in 0..50 {
        let (status, _) = doors.call("/v1/check", &batch).await;
        assert_eq!(status, 200);
    }
    let left = async || {
        let looked = doors.look("limit=many&client=user_id:7").await;
        looked["limits"][0]["remaining"].as_u64().unwrap()
    };
    assert_eq!(left().await, 950_000);
    let one = json!({ "checks": [check] });
    let (status, answer) = doors.call("/v1/check", &one).await;
    assert_eq!((status, &answer["error"]), (503, &json!("too_many_holds")));
    assert_eq!(left().await, 950_000);
    // Without a hold, the program is not bounded.
    let free = json!({ "limits": ["many"], "client": "user_id:7" });
    assert_eq!(doors.check(free).await["admitted"], true);
    let door = doors.gateway.decisions.unwrap();
    let other = tidegate_testkit::Client::new(door).from_ip([127, 0, 0, 2]);
    let headers = [("content-type", "application/json")];
    let text = tidegate_testkit::body::full(one.to_string());
    let answer = send_body(&other, http::Method::POST, "/v1/check", &headers, text).await;
    assert!(json_of(&answer)["results"][0]["receipt"].is_string());
    doors.stop().await;
}
