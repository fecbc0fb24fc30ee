//! Many calls on one connection, and callers that leave.

use std::time::Duration;

use http::Request;
use serde_json::json;
use tidegate_testkit::{RawClient, body};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::kit::*;

const YAML: &str = "
store: memory
limits:
  calls: { fixed_window: { limit: 777, window: 31d } }
  running: { concurrency: { limit: 5 } }
routes: [{ path: /**, upstream: UPSTREAM, limits: [] }]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_streams_of_one_connection_are_decided_exactly() {
    let doors = Doors::start("", YAML).await;
    let envoy = std::sync::Arc::new(tidegate_testkit::Client::h2(
        doors.gateway.decisions.unwrap(),
    ));
    let call = json!({ "checks": [{ "limits": ["calls"], "client": "ip:192.0.2.1" }] }).to_string();
    let mut calls = JoinSet::new();
    for _ in 0..10_000 {
        let (envoy, call) = (envoy.clone(), call.clone());
        calls.spawn(async move {
            let request = Request::post("/v1/check").header("content-type", "application/json");
            let answer = envoy.request(request.body(body::full(call)).unwrap()).await;
            json_of(&answer)["results"][0]["admitted"] == true
        });
    }
    let admitted = calls.join_all().await.into_iter().filter(|it| *it).count();
    assert_eq!(admitted, 777);
    assert_eq!(envoy.connections(), 1);
    doors.stop().await;
}

#[tokio::test]
async fn a_caller_that_leaves_is_charged_once_at_most_and_holds_no_place() {
    let doors = Doors::start("", YAML).await;
    let checks = json!({ "checks": [
        { "limits": ["calls"], "client": "ip:192.0.2.1" },
        { "limits": ["running"], "client": "ip:192.0.2.1", "hold": 1 },
    ] })
    .to_string();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        checks.len()
    );
    for cut in [0, 1, checks.len() / 2, checks.len()] {
        for _ in 0..10 {
            let mut client = RawClient::connect(doors.gateway.decisions.unwrap()).await;
            client
                .send(format!("{head}{}", &checks[..cut]))
                .await
                .unwrap();
        }
    }
    until("all places are free", async || {
        let looked = doors.look("limit=running&client=ip:192.0.2.1").await;
        looked["limits"][0]["remaining"] == 5
    })
    .await;
    let looked = doors.look("limit=calls&client=ip:192.0.2.1").await;
    let left = looked["limits"][0]["remaining"].as_u64().unwrap();
    assert!((767..=777).contains(&left), "{left} are left");
    doors.stop().await;
}

#[tokio::test]
async fn a_caller_that_leaves_before_the_end_of_its_body_is_counted() {
    let doors = Doors::start("", YAML).await;
    let program = tidegate_testkit::Client::h2(doors.gateway.decisions.unwrap());
    let labels = "route=\"none\",outcome=\"rejected\",status=\"4xx\",door=\"check\"";
    let counter = format!("tidegate_requests_total{{{labels}}}");
    until("the call is counted", async || {
        // A call that is reset before the gateway has read its head does not count, so the test begins another.
        let (_sender, text) = body::channel();
        let request = Request::post("/v1/check").header("content-type", "application/json");
        let answer = program.try_request(request.body(text).unwrap());
        let left = timeout(Duration::from_millis(20), answer).await;
        assert!(left.is_err(), "the gateway answers a call without a body");
        sample_if_any(doors.gateway.admin, &counter).await.is_some()
    })
    .await;
    doors.stop().await;
}
