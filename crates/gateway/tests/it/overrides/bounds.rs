//! Bounds of requests that change overrides, and of lists.

use tidegate_testkit::RawClient;

use super::*;
use crate::kit::LONG;

/// Nobody who may only look makes the gateway buffer a body, and a short text becomes no long list.
#[tokio::test]
async fn bodies_and_conditions_are_bounded() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    let many = |count| json!({ "overrides": vec![json!({}); count] });
    let long = json!({ "action": "block", "for": "1h", "reason": "x".repeat(16 << 10) });
    let (one, all) = ("/overrides/user_id:1", "/overrides");
    for (method, path, wanted, status, detail) in [
        (Method::GET, one, json!({}), 413, "more than 0 bytes"),
        (Method::PUT, one, long.clone(), 413, "more than 16384 bytes"),
        (Method::DELETE, one, long, 413, "more than 16384 bytes"),
        (Method::POST, all, many(10_001), 400, "at most 10000"),
        (Method::POST, all, many(10_000), 200, "\"refused\":10000"),
        (Method::POST, all, json!({}), 400, "missing field"),
    ] {
        let body = body::full(wanted.to_string());
        let answer = send_body(&Client::fresh(admin), method.clone(), path, &[], body).await;
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.text());
        assert!(answer.text().contains(detail), "{}", answer.text());
    }
    let broken = "PUT /overrides/user_id:1 HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n";
    let (answer, _) = RawClient::exchange(admin, broken, LONG).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains("bad_body"), "{answer}");
    let (one, other) = (("if-match", "\"1\""), ("if-match", "\"2\""));
    for headers in [
        &[("if-match", "\"0\"")][..],
        &[one, other],
        &[one, ("if-none-match", "*")],
        &[("if-none-match", "\"1\"")],
        &[("if-none-match", "*"), ("if-none-match", "*")],
    ] {
        let answer = change(admin, Method::PUT, "user_id:1", headers, &block()).await;
        assert_eq!(answer.status, 400, "{headers:?}: {}", answer.text());
    }
    // Many have no condition: it would be of no effect.
    for header in ["if-match", "if-none-match"] {
        let request = Request::post("/overrides").header(header, "*");
        let load =
            json!({ "overrides": [{ "name": "user_id:1", "action": "block", "for": "1h" }] });
        let request = request.body(body::full(load.to_string())).unwrap();
        let answer = Client::fresh(admin).request(request).await;
        assert_eq!(answer.status, 400, "{header}: {}", answer.text());
        assert!(
            answer.text().contains("a condition is for one"),
            "{}",
            answer.text()
        );
    }
    assert_eq!(names(admin).await, [""; 0]);
    bench.stop().await;
}

/// Part after part, each override once.
#[tokio::test]
async fn a_list_is_shown_in_parts() {
    on_both_stores(async |store| {
        let bench = Bench::start(&limited(store)).await;
        let admin = bench.gateway.admin;
        let mut expected = vec!["10.0.0.0/8".to_owned()];
        set(admin, "10.0.0.0%2F8", block()).await;
        for id in 0..6 {
            set(admin, &format!("user_id:{id}"), block()).await;
            expected.push(format!("user_id:{id}"));
        }
        clear(admin, "user_id:3").await;
        expected.retain(|name| name != "user_id:3");
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let part = page_json(admin, &format!("/overrides?limit=2{after}")).await;
            assert_eq!(part["count"], 6);
            let names = part["overrides"].as_array().unwrap().iter();
            found.extend(names.map(|it| it["name"].as_str().unwrap().to_owned()));
            let Some(next) = part["next"].as_str() else {
                break;
            };
            after = format!("&after={}", next.replace('/', "%2F"));
        }
        assert_eq!(found.len(), 6);
        found.sort_unstable();
        assert_eq!(found, expected);
        bench.stop().await;
    })
    .await;
}

/// Whoever asks for many and reads nothing makes the gateway hold 1 MB.
#[tokio::test]
async fn a_part_of_a_list_is_bounded_in_bytes() {
    let bench = Bench::start(&limited("")).await;
    let admin = bench.gateway.admin;
    let (pad, reason) = ("x".repeat(240), "y".repeat(512));
    let long = |id: usize| json!({ "name": format!("user_id:{id:05}{pad}"), "action": "block", "for": "1h", "reason": reason });
    let wanted = json!({ "overrides": (0..3_000).map(long).collect::<Vec<_>>() });
    let load = Request::post("/overrides").body(body::full(wanted.to_string()));
    let loaded = Client::fresh(admin).request(load.unwrap()).await;
    assert!(loaded.text().contains("\"set\":3000"), "{}", loaded.text());
    let (mut found, mut after) = (0, String::new());
    loop {
        let (_, text) = page(admin, &format!("/overrides?limit=10000{after}")).await;
        assert!(text.len() < 1_200_000, "{}", text.len());
        let part: Value = serde_json::from_str(&text).unwrap();
        found += part["overrides"].as_array().unwrap().len();
        let Some(next) = part["next"].as_str() else {
            break;
        };
        after = format!("&after={next}");
    }
    assert_eq!(found, 3_000);
    bench.stop().await;
}
