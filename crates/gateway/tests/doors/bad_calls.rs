//! Calls that are wrong, huge or hostile: a clear error each, and nothing charged.

use http::Method;
use serde_json::{Value, json};
use tidegate_testkit::body;

use crate::kit::*;

const YAML: &str = "
store: memory
clients: [{ user_id: { header: X-User-Id } }, ip: {}]
trusted_proxies: [127.0.0.1]
limits:
  calls: { fixed_window: { limit: 3, window: 31d } }
  tenant: { fixed_window: { limit: 2, window: 31d }, per: [\"header:X-Tenant\"] }
  routed: { fixed_window: { limit: 2, window: 31d }, per: [client, route] }
  running: { concurrency: { limit: 2 } }
routes: [{ name: all, path: /**, upstream: UPSTREAM, limits: [calls, routed] }]
";

#[tokio::test]
async fn each_wrong_check_has_its_error() {
    let doors = Doors::start("", YAML).await;
    for (check, error, part) in [
        (json!({}), "bad_check", "`limits` and `route`"),
        (
            json!({ "limits": ["calls"], "route": "all", "client": "user_id:7" }),
            "bad_check",
            "`limits` and `route`",
        ),
        (json!({ "limits": ["nope"] }), "unknown_limit", "`nope`"),
        (json!({ "route": "nope" }), "unknown_route", "`nope`"),
        (
            json!({ "limits": ["calls", "calls"], "client": "user_id:7" }),
            "bad_check",
            "twice",
        ),
        (json!({ "limits": ["calls"] }), "missing_value", "`client`"),
        (
            json!({ "limits": ["tenant"] }),
            "missing_value",
            "`header:x-tenant`",
        ),
        (
            json!({ "limits": ["routed"], "client": "user_id:7" }),
            "missing_value",
            "`route`",
        ),
        (
            json!({ "limits": ["calls"], "client": "nobody" }),
            "unknown_client",
            "a client is written",
        ),
        (
            json!({ "limits": ["calls"], "client": "api_key:x" }),
            "unknown_client",
            "API key",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "shoe": "1" } }),
            "bad_check",
            "`shoe`",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "ip": "here" } }),
            "bad_check",
            "`ip`",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "header:X-Tenant": "a\nb" } }),
            "bad_check",
            "not valid",
        ),
        (
            json!({ "limits": ["calls"], "client": "user_id:7", "cost": 0 }),
            "bad_check",
            "`cost`",
        ),
        (
            json!({ "limits": ["calls"], "client": "user_id:7", "cost": 1_u64 << 53 }),
            "bad_check",
            "`cost`",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "cookie:a=1; b": "c" } }),
            "bad_check",
            "no part",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "header:x-tenant": "a", "header:X-Tenant": "b" } }),
            "bad_check",
            "twice",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "header:X-Tenant": " " } }),
            "bad_check",
            "not valid",
        ),
        (
            json!({ "limits": ["tenant"], "per": { "query:a-b": "1", "query:A_b": "2" } }),
            "bad_check",
            "twice",
        ),
        (
            json!({ "limits": ["routed"], "per": { "route": "all" } }),
            "bad_check",
            "a route is named by `route`",
        ),
        (
            json!({ "limits": ["calls"], "client": "user_id:7", "hold": 5 }),
            "bad_check",
            "holds units",
        ),
        (
            json!({ "limits": ["running"], "client": "user_id:7", "hold": 3601 }),
            "bad_check",
            "`hold`",
        ),
        (
            json!({ "limits": ["running"], "client": "user_id:7" }),
            "bad_check",
            "needs `hold`",
        ),
    ] {
        let text = check.to_string();
        let (found, detail) = doors.wrong(check).await;
        assert_eq!(found, error, "{text}: {detail}");
        assert!(detail.contains(part), "{text}: {detail}");
        assert!(detail.starts_with("checks[0]: "), "{detail}");
    }
    let (_, detail) = doors
        .wrong(json!({ "limits": ["a".repeat(100_000)] }))
        .await;
    assert!(detail.len() < 300, "{detail}");
    let many: serde_json::Map<String, Value> = (0..65)
        .map(|nth| (format!("header:x-{nth}"), json!("a")))
        .collect();
    let (_, detail) = doors
        .wrong(json!({ "limits": ["tenant"], "per": many }))
        .await;
    assert!(detail.contains("at most 64"), "{detail}");
    let many: Vec<String> = (0..17).map(|nth| format!("l{nth}")).collect();
    let (error, _) = doors.wrong(json!({ "limits": many })).await;
    assert_eq!(error, "bad_check");
    doors.stop().await;
}

#[tokio::test]
async fn a_wrong_check_in_a_batch_keeps_all_from_being_charged() {
    let doors = Doors::start("", YAML).await;
    let good = json!({ "limits": ["calls"], "client": "user_id:7" });
    let call = json!({ "checks": [good, good, { "limits": ["nope"] }] });
    let (status, answer) = doors.call("/v1/check", &call).await;
    assert_eq!(status, 400);
    assert!(
        answer["detail"]
            .as_str()
            .unwrap()
            .starts_with("checks[2]: ")
    );
    let looked = doors.look("limit=calls&client=user_id:7").await;
    assert_eq!(looked["limits"][0]["remaining"], 3);
    doors.stop().await;
}

/// Sends a text to `/v1/check`. Returns the status, and the `error` of the answer.
async fn sent(doors: &Doors, text: impl Into<bytes::Bytes>) -> (u16, Value) {
    let headers = [("content-type", "application/json; charset=utf-8")];
    let text = body::full(text);
    let answer = send_body(&doors.program, Method::POST, "/v1/check", &headers, text).await;
    (answer.status.as_u16(), json_of(&answer)["error"].clone())
}

#[tokio::test]
async fn malformed_huge_and_deep_json_is_refused() {
    let doors = Doors::start("", YAML).await;
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{\"checks\":[]}",
        "{\"checks\":[{\"limits\":[\"calls\"],\"colour\":1}]}",
        "{\"checks\":[{\"limits\":[\"calls\"],\"cost\":-1}]}",
        "{\"checks\":[{\"limits\":[\"calls\"],\"cost\":1.5}]}",
        "{\"checks\":[{\"limits\":[\"calls\"],\"cost\":99999999999999999999}]}",
        "{\"checks\":[{\"limits\":\"calls\"}]}",
        "{\"checks\":[{}],\"more\":1}",
        "[[[[\"calls\"],null,\"user_id:7\"]]]",
        "{\"checks\":[[[\"calls\"],null,\"user_id:7\"]]}",
        "{\"checks\":[{\"limits\":[\"tenant\"],\"per\":{\"ip\":\"::1\",\"ip\":\"::1\"}}]}",
        "\u{0}",
    ] {
        assert_eq!(
            sent(&doors, text).await,
            (400, json!("bad_check")),
            "{text:?}"
        );
    }
    let deep = "[".repeat(100_000);
    assert_eq!(sent(&doors, deep).await, (400, json!("bad_check")));
    let deep = format!("{{\"checks\":{}", "{\"per\":".repeat(50_000));
    assert_eq!(sent(&doors, deep).await, (400, json!("bad_check")));
    let many = format!("{{\"checks\":[{}]}}", vec!["{}"; 1_001].join(","));
    assert_eq!(sent(&doors, many).await, (400, json!("bad_check")));
    assert_eq!(
        sent(&doors, b"{\"checks\":[{\"client\":\"\xff\"}]}".to_vec()).await,
        (400, json!("bad_check"))
    );
    let huge = format!(
        "{{\"checks\":[{{\"client\":\"{}\"}}]}}",
        "a".repeat(2 << 20)
    );
    assert_eq!(sent(&doors, huge).await, (413, json!("body_too_large")));
    doors.stop().await;
}

#[tokio::test]
async fn other_kinds_methods_and_paths_are_refused() {
    let doors = Doors::start("", YAML).await;
    for (method, path, headers, status) in [
        (Method::POST, "/v1/check", &[][..], 415),
        (
            Method::POST,
            "/v1/check",
            &[("content-type", "text/plain")],
            415,
        ),
        (
            Method::PUT,
            "/v1/check",
            &[("content-type", "application/json")],
            405,
        ),
        (Method::GET, "/v1/settle", &[], 405),
        (Method::POST, "/v1/openapi.json", &[], 405),
        (Method::TRACE, "/v1/check", &[], 405),
        (Method::TRACE, "/v1/settle", &[], 405),
        (Method::TRACE, "/v1/openapi.json", &[], 405),
        (Method::GET, "/v1/nothing", &[], 404),
        (Method::GET, "/", &[], 404),
        (Method::GET, "/v1/asked", &[], 404),
        (Method::GET, SHOULD_RATE_LIMIT, &[], 405),
    ] {
        let answer = send(&doors.program, method.clone(), path, headers).await;
        assert_eq!(answer.status, status, "{method} {path}");
        // A 405 has `Allow` (RFC 9110, 15.5.6).
        assert_eq!(
            answer.header("allow").is_some(),
            status == 405,
            "{method} {path}"
        );
    }
    doors.stop().await;
}

#[tokio::test]
async fn looks_have_one_form() {
    let doors = Doors::start("", YAML).await;
    for query in [
        "",
        "limit=calls&client=user_id:7&cost=1&cost=2",
        "limit=calls&client=user_id:7&client=user_id:8",
        "limit=tenant&per=header:X-Tenant",
        "limit=tenant&per=header:X-Tenant%3Da&per=header:X-Tenant%3Db",
        "limit=calls&client=user_id:7&colour=red",
        "limit=calls&client=user_id:7&cost=-1",
    ] {
        let answer = doors.program.get(&format!("/v1/check?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
    }
    doors.stop().await;
}

#[tokio::test]
async fn heads_have_the_bounds_of_proxied_requests() {
    let doors = Doors::start("", YAML).await;
    let target = format!("/v1/check?limit={}", "a".repeat(9_000));
    assert_eq!(doors.program.get(&target).await.status, 414);
    let value = "a".repeat(4_000);
    let headers: Vec<_> = (0..10).map(|_| ("x-many", value.as_str())).collect();
    let answer = send(&doors.program, Method::GET, "/v1/openapi.json", &headers).await;
    assert_eq!(answer.status, 431);
    doors.stop().await;
}

#[tokio::test]
async fn settlements_are_bounded() {
    let doors = Doors::start("", YAML).await;
    for call in [
        json!({}),
        json!({ "settlements": [] }),
        json!({ "settlements": [{}] }),
        json!({ "settlements": [["a", 1]] }),
        json!({ "settlements": [{ "receipt": "a", "cost": 1_u64 << 53 }] }),
        json!({ "settlements": vec![json!({ "receipt": "a" }); 1_001] }),
    ] {
        let (status, answer) = doors.call("/v1/settle", &call).await;
        assert_eq!((status, &answer["error"]), (400, &json!("bad_settlement")));
    }
    doors.stop().await;
}
