//! What log, metrics and the status page have of decisions for others.

use serde_json::{Value, json};

use crate::kit::*;
use crate::support::GatewayProcess;

const DOMAINS: &str =
    "rate_limit_service: { domains: { edge: [{ match: { user: \"*\" }, limits: [per-user] }] } }";

const YAML: &str = "
store: memory
trusted_proxies: [127.0.0.1]
limits:
  calls: { fixed_window: { limit: 1, window: 31d } }
  seen: { fixed_window: { limit: 1, window: 31d }, action: observe }
  per-user: { fixed_window: { limit: 1, window: 31d }, per: [\"descriptor:user\"] }
routes: [{ name: all, path: /**, upstream: UPSTREAM, limits: [calls] }]
";

/// Asks twice by each door, and sends two proxied requests. The first of two is admitted, and the second is refused.
async fn ask_twice_by_each_door(doors: &Doors) {
    for _ in 0..2 {
        doors
            .check(json!({ "limits": ["calls"], "client": "ip:192.0.2.1" }))
            .await;
        doors
            .check(json!({ "route": "all", "client": "ip:192.0.2.2" }))
            .await;
        doors
            .ask(&[("x-forwarded-uri", "/"), ("x-forwarded-for", "192.0.2.3")])
            .await;
        doors
            .rate_limit(rate_limit_call("edge", vec![descriptor(&[("user", "a")])]))
            .await;
        doors.client.get("/").await;
    }
}

#[tokio::test]
async fn each_door_has_its_label_in_the_metrics() {
    let doors = Doors::start(DOMAINS, YAML).await;
    ask_twice_by_each_door(&doors).await;
    for (route, door) in [
        ("none", "check"),
        ("all", "check"),
        ("all", "ask"),
        ("none", "rate_limit_service"),
    ] {
        for (outcome, status) in [("admitted", "2xx"), ("limited", "4xx")] {
            let labels = format!(
                "route=\"{route}\",outcome=\"{outcome}\",status=\"{status}\",door=\"{door}\""
            );
            let name = format!("tidegate_requests_total{{{labels}}}");
            assert_eq!(sample(doors.gateway.admin, &name).await, 1, "{name}");
        }
    }
    let forwarded = "tidegate_requests_total{route=\"all\",outcome=\"forwarded\",status=\"2xx\"}";
    assert_eq!(sample(doors.gateway.admin, forwarded).await, 1);
    let refused =
        "tidegate_decisions_total{limit=\"calls\",verdict=\"refused\",decided_by=\"store\"}";
    assert_eq!(sample(doors.gateway.admin, refused).await, 4);
    doors.stop().await;
}

#[tokio::test]
async fn the_status_counts_the_decisions_of_all_doors() {
    let doors = Doors::start(DOMAINS, YAML).await;
    ask_twice_by_each_door(&doors).await;
    let headers = [
        "content-security-policy",
        "x-content-type-options",
        "referrer-policy",
        "cross-origin-resource-policy",
        "cross-origin-opener-policy",
    ];
    let browser = tidegate_testkit::Client::fresh(doors.gateway.admin);
    let browser = headers.into_iter().fold(browser, |it, name| it.knows(name));
    let document = || async { json_of(&browser.get("/status.json").await) };
    until("all requests are sampled", async || {
        let document = document().await;
        document["requests"]["total"] == 10 && document["requests"]["minute"]["all"] == 10
    })
    .await;
    let status = document().await;
    let outcomes = json!({ "admitted": 4, "forwarded": 1, "limited": 5 });
    assert_eq!(status["requests"]["outcomes"], outcomes);
    assert_eq!(status["requests"]["minute"]["refused"], 5);
    let of_routes = |name: &str| {
        let mut routes = status["routes"].as_array().unwrap().iter();
        let route = routes.find(|route| route["name"] == name).unwrap();
        [
            &route["total"],
            &route["minute"]["all"],
            &route["minute"]["refused"],
        ]
        .map(Value::clone)
    };
    assert_eq!(of_routes("all"), [6, 6, 3].map(Value::from));
    assert_eq!(of_routes("none"), [4, 4, 2].map(Value::from));
    // The limits of descriptors are listed, and decisions are no route.
    let limits = status["limits"].as_array().unwrap().iter();
    let limits = limits.map(|limit| (limit["name"].clone(), limit["routes"].clone()));
    let limits: Vec<_> = limits.collect();
    let expected = [
        ("calls", json!(["all"])),
        ("seen", json!([])),
        ("per-user", json!([])),
    ];
    assert_eq!(limits, expected.map(|(name, routes)| (json!(name), routes)));
    doors.stop().await;
}

#[tokio::test]
async fn an_observed_limit_refuses_no_question() {
    let doors = Doors::start("", YAML).await;
    for _ in 0..3 {
        let result = doors
            .check(json!({ "limits": ["seen"], "client": "ip:192.0.2.1" }))
            .await;
        assert_eq!(result["admitted"], true);
    }
    let name =
        "tidegate_decisions_total{limit=\"seen\",verdict=\"would_refuse\",decided_by=\"store\"}";
    assert_eq!(sample(doors.gateway.admin, name).await, 2);
    doors.stop().await;
}

#[tokio::test]
async fn refused_calls_are_counted() {
    let doors = Doors::start(DOMAINS, YAML).await;
    let stranger =
        tidegate_testkit::Client::new(doors.gateway.decisions.unwrap()).from_ip([127, 0, 0, 2]);
    doors.program.get("/v1/nothing").await;
    doors.program.get("/v1/settle").await;
    let post = async |path: &str, kind: &str, text: &str| {
        let headers = [("content-type", kind)];
        let text = tidegate_testkit::body::full(text.to_owned());
        send_body(&doors.program, http::Method::POST, path, &headers, text).await
    };
    post("/v1/check", "text/plain", "{}").await;
    post("/v1/check", "application/json", "{").await;
    post("/v1/settle", "application/json", "{}").await;
    let answer = doors.program.get("/v1/check?limit=nope").await;
    assert_eq!(answer.status, 400);
    let counted = async |outcome: &str, door: &str| {
        let labels = format!("route=\"none\",outcome=\"{outcome}\",status=\"4xx\",door=\"{door}\"");
        sample(
            doors.gateway.admin,
            &format!("tidegate_requests_total{{{labels}}}"),
        )
        .await
    };
    assert_eq!(counted("rejected", "check").await, 6);
    // Envoy: a body that is no message, and a call that is out of bounds.
    let many = vec![descriptor(&[("user", "a")]); 101];
    let answer = doors
        .raw_rate_limit(rate_limit_call("edge", many), &[])
        .await;
    assert_eq!(answer.header("grpc-status"), Some("3"));
    let request = http::Request::post(SHOULD_RATE_LIMIT)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tidegate_testkit::body::full(framed(b"\xff\xff")));
    doors.envoy.request(request.unwrap()).await;
    assert_eq!(counted("rejected", "rate_limit_service").await, 2);
    // A proxy: no path, and no trust.
    doors.ask(&[]).await;
    let headers = [("x-forwarded-uri", "/")];
    send(&stranger, http::Method::GET, "/v1/ask", &headers).await;
    assert_eq!(counted("rejected", "ask").await, 2);
    doors.stop().await;
}

#[tokio::test]
async fn the_access_log_has_a_line_per_decision() {
    let upstream = tidegate_testkit::Upstream::ok();
    let yaml = YAML.replace("UPSTREAM", &upstream.url());
    let process =
        GatewayProcess::start(&format!("decisions: {{ listen: 127.0.0.1:0 }}\n{yaml}")).await;
    let line = process.process.wait_for_line("decisions", LONG).await;
    let door = crate::support::logged_address(&line);
    let program = tidegate_testkit::Client::new(door);
    let call = json!({ "checks": [
        { "limits": ["calls"], "client": "ip:192.0.2.1" },
        { "limits": ["calls"], "client": "ip:192.0.2.1" },
    ] });
    let headers = [("content-type", "application/json")];
    let text = tidegate_testkit::body::full(call.to_string());
    let answer = send_body(&program, http::Method::POST, "/v1/check", &headers, text).await;
    let results = json_of(&answer)["results"].clone();
    for (nth, outcome, status) in [(0, "admitted", 200), (1, "limited", 429)] {
        let id = results[nth]["request_id"].as_str().unwrap();
        let line = process.process.wait_for_line(id, LONG).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["door"], "check");
        assert_eq!(line["outcome"], outcome);
        assert_eq!(line["status"], status);
        assert_eq!(line["client"], "ip:192.0.2.1");
        assert_eq!(line["peer"], "127.0.0.1");
        assert_eq!(line["path"], "/v1/check");
    }
    // A call that is refused before a decision has a line, too.
    let answer = program.get("/v1/check?limit=nope").await;
    assert_eq!(answer.status, 400);
    let id = answer.header("x-request-id").unwrap();
    let line = process.process.wait_for_line(id, LONG).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["door"], "check");
    assert_eq!(line["outcome"], "rejected");
    assert_eq!(line["error"], "unknown_limit");
}
