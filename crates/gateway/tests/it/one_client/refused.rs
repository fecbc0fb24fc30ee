use std::time::Instant;

use http::Method;
use serde_json::Value;
use tidegate_testkit::RedisServer;

use super::{ALPHA, asked, bench, left, show, these};
use crate::callers::{ask, at};
use crate::kit::{Bench, LONG, ready};

#[tokio::test]
async fn who_is_nobody_is_told_why() {
    let bench = bench("").await;
    for (name, status, error, words) in [
        ("acme", 400, "bad_client_name", "api_key:NAME"),
        ("tenant:acme", 400, "bad_client_name", "api_key:NAME"),
        ("%ff", 400, "bad_client_name", "api_key:NAME"),
        ("ip:1.2.3.4.5", 400, "bad_client_name", "address"),
        ("ip:10.0.0.0%2F8", 400, "bad_client_name", "address"),
        ("api_key:gamma", 404, "unknown_client", "no listed API key"),
        (
            "api_key:alpha-key",
            404,
            "unknown_client",
            "no listed API key",
        ),
    ] {
        for (method, path) in [
            (Method::GET, name.to_owned()),
            (Method::POST, format!("{name}/reset")),
        ] {
            let answer = asked(bench.gateway.admin, method, &format!("/clients/{path}")).await;
            assert_eq!(answer.status, status, "{path}");
            assert_eq!(
                answer.header("content-type"),
                Some("application/problem+json")
            );
            let problem: Value = serde_json::from_str(answer.text()).unwrap();
            assert_eq!(problem["error"], error, "{path}");
            assert!(
                problem["detail"].as_str().unwrap().contains(words),
                "{problem}"
            );
        }
    }
    bench.stop().await;
}

#[tokio::test]
async fn looking_is_a_get_and_resetting_a_post() {
    let bench = bench("").await;
    let admin = bench.gateway.admin;
    assert_eq!(ask(&bench.client, "/a", &[ALPHA]).await.status, 200);
    for (method, path, allow) in [
        (Method::POST, "/clients/api_key:alpha", "GET, HEAD"),
        (Method::DELETE, "/clients/api_key:alpha", "GET, HEAD"),
        (Method::GET, "/clients/api_key:alpha/reset", "POST"),
        (Method::HEAD, "/clients/api_key:alpha/reset", "POST"),
    ] {
        let answer = asked(admin, method.clone(), path).await;
        assert_eq!(
            (answer.status.as_u16(), answer.header("allow")),
            (405, Some(allow))
        );
    }
    assert_eq!(left(&show(&bench, "api_key:alpha").await)[0].1, 4);
    let head = asked(admin, Method::HEAD, "/clients/api_key:alpha").await;
    assert_eq!((head.status.as_u16(), head.text()), (200, ""));
    for path in ["/clients", "/clients/", "/clients/a/b", "/clients/a/reset/"] {
        assert_eq!(asked(admin, Method::GET, path).await.status, 404, "{path}");
    }
    bench.stop().await;
}

#[tokio::test]
async fn without_redis_it_says_what_it_knows_by_itself_and_takes_nothing_back() {
    let redis = RedisServer::start().await;
    let url = redis.url();
    let bench = Bench::of_limit(
        &format!("store: {{ redis: {{ url: \"{url}\", timeout: 5s }} }}"),
        "fixed_window: { limit: 2, window: 31d }",
    )
    .await;
    assert_eq!(bench.client.get("/").await.status, 200);
    redis.stop();
    ready(bench.gateway.admin, 503).await;
    let answer = asked(
        bench.gateway.admin,
        Method::POST,
        "/clients/ip:127.0.0.1/reset",
    )
    .await;
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("store_unavailable"), "{answer:?}");
    let told = show(&bench, "ip:127.0.0.1").await;
    let why = told["without_store"].as_str().unwrap();
    assert!(
        why.starts_with("there is no connection to Redis: "),
        "{why}"
    );
    let limit = &told["limits"][0];
    assert_eq!(limit["known_here"]["decides"], "share");
    assert_eq!(limit["known_here"]["last"]["remaining"], 1);
    // What Redis said last is gone on from.
    assert_eq!(left(&told), these([("it", 1)]));
    assert_eq!(bench.client.get("/").await.status, 200);
    let told = show(&bench, "ip:127.0.0.1").await;
    assert_eq!(left(&told), these([("it", 0)]));
    assert_eq!(told["limits"][0]["allowed"], false);
    assert_eq!(bench.client.get("/").await.status, 429);
    redis.restart().await;
    ready(bench.gateway.admin, 200).await;
    let deadline = Instant::now() + LONG;
    loop {
        let told = show(&bench, "ip:127.0.0.1").await;
        if told["without_store"].is_null() {
            assert!(told["limits"][0]["known_here"].is_null(), "{told}");
            break;
        }
        assert!(Instant::now() < deadline, "{told}");
    }
    // Another address is another client, here as everywhere.
    assert_eq!(at(&bench, 9).get("/").await.status, 200);
    assert_eq!(
        left(&show(&bench, "ip:127.0.0.9").await),
        these([("it", 1)])
    );
    bench.stop().await;
}
