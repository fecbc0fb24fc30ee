//! What is refused without an answer: connections that close, streams that are reset, and what is told of it here.

use http::Request;
use serde_json::{Value, json};
use tidegate_testkit::{Client, End, RawClient, body};

use crate::kit::{Bench, LONG, get_each, on_both_stores, page};
use crate::support::GatewayProcess;

/// Limits of one request that drop and reject, alone and together, and one of six on whatever is asked.
fn configuration(store: &str) -> String {
    format!(
        "
{store}
limits:
  drops: {{ fixed_window: {{ limit: 1, window: 31d }}, action: drop, per: [client, route] }}
  rejects: {{ fixed_window: {{ limit: 1, window: 31d }}, action: reject, per: [client, route] }}
  guard: {{ fixed_window: {{ limit: 6, window: 31d }}, action: drop }}
always: [guard]
routes:
  - {{ name: drops, path: /drops, upstream: UPSTREAM, limits: [drops] }}
  - {{ name: both, path: /both, upstream: UPSTREAM, limits: [drops, rejects] }}
  - {{ name: rejects, path: /rejects, upstream: UPSTREAM, limits: [rejects] }}
"
    )
}

/// What comes back on a connection that sends these requests, to its end.
async fn sent(bench: &Bench, requests: &[&str]) -> (String, End) {
    let mut client = RawClient::connect(bench.gateway.address).await;
    for request in requests {
        let request = format!("{request} HTTP/1.1\r\nhost: a\r\n\r\n");
        client.send(request).await.unwrap();
    }
    let (answers, end) = client.read_to_close(LONG).await;
    (String::from_utf8(answers).unwrap(), end)
}

#[tokio::test]
async fn a_connection_closes_without_a_word() {
    on_both_stores(async |store| {
        let bench = Bench::start(&configuration(store)).await;
        assert_eq!(bench.client.get("/drops").await.status, 200);
        let (answer, end) = sent(&bench, &["GET /drops"]).await;
        assert_eq!((&*answer, end), ("", End::Closed));
        // Where two refuse, the stronger decides; and alone the other one still answers.
        assert_eq!(bench.client.get("/both").await.status, 200);
        let (answer, end) = sent(&bench, &["GET /both"]).await;
        assert_eq!((&*answer, end), ("", End::Closed));
        for status in [200, 429] {
            assert_eq!(bench.client.get("/rejects").await.status, status);
        }
        assert_eq!(bench.upstream.count(), 3);

        // Guessing is dropped, too, once it is too much.
        get_each(&bench.client, 2, "/nowhere", &[], 404).await;
        bench.client.get("/nowhere").await;
        let (answer, end) = sent(&bench, &["GET /nowhere"]).await;
        assert_eq!((&*answer, end), ("", End::Closed));
        let (_, metrics) = page(bench.gateway.admin, "/metrics").await;
        for sample in [
            "tidegate_requests_total{route=\"drops\",outcome=\"dropped\",status=\"none\"} 1",
            "tidegate_requests_total{route=\"both\",outcome=\"dropped\",status=\"none\"} 1",
            "tidegate_requests_total{route=\"none\",outcome=\"dropped\",status=\"none\"} 1",
            "tidegate_requests_total{route=\"rejects\",outcome=\"dropped\",status=\"none\"} 0",
            "tidegate_requests_total{route=\"rejects\",outcome=\"limited\",status=\"4xx\"} 1",
        ] {
            assert!(
                metrics.lines().any(|line| line == sample),
                "{sample}\n{metrics}"
            );
        }
        bench.stop().await;
    })
    .await;
}

/// What was answered before on the same connection arrives.
#[tokio::test]
async fn what_came_before_is_answered() {
    let bench = Bench::start(&configuration("")).await;
    let (answers, _) = sent(&bench, &["GET /drops", "GET /drops", "GET /rejects"]).await;
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
    assert!(answers.starts_with("HTTP/1.1 200 OK"), "{answers}");
    assert_eq!(bench.upstream.count(), 1);
    bench.stop().await;
}

#[tokio::test]
async fn a_stream_is_reset_and_the_connection_goes_on() {
    on_both_stores(async |store| {
        let bench = Bench::start(&configuration(store)).await;
        let client = Client::h2(bench.gateway.address);
        assert_eq!(client.get("/drops").await.status, 200);
        for _ in 0..2 {
            let request = Request::get("/drops").body(body::empty()).unwrap();
            let error = client.try_request(request).await.unwrap_err();
            let error = format!("{error:?}");
            assert!(error.contains("ENHANCE_YOUR_CALM"), "{error}");
        }
        assert_eq!(client.get("/rejects").await.status, 200);
        assert_eq!(client.connections(), 1);
        assert_eq!(bench.upstream.count(), 2);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_request_has_its_line_in_the_log() {
    let upstream = tidegate_testkit::Upstream::ok();
    let yaml = configuration("").replace("UPSTREAM", &upstream.url());
    let gateway = GatewayProcess::start(&yaml).await;
    let client = Client::fresh(gateway.address);
    assert_eq!(client.get("/drops").await.status, 200);
    let request = Request::get("/drops").body(body::empty()).unwrap();
    client.try_request(request).await.unwrap_err();
    let access = "\"target\":\"access\"";
    let line = gateway.process.wait_for_nth_line(access, 2, LONG).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    let told = ["status", "outcome", "route", "limit"].map(|name| line[name].clone());
    let expected = [json!(444), json!("dropped"), json!("drops"), json!("drops")];
    assert_eq!(told, expected);
}
