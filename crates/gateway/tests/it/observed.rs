//! `action: observe`: a limit that counts and says what it would have done, and does nothing.

use serde_json::Value;
use tidegate_testkit::{Answer, Client, RedisServer, Upstream};

use crate::kit::{Bench, LONG, exact, on_both_stores, page, page_json, sample, send};
use crate::support::{GatewayProcess, TestGateway};

const TRUST: &str = "trusted_proxies: [127.0.0.1]\nclients: [{ user_id: {} }]\n";

/// All that a client sees but what is new in every answer.
fn seen(answer: &Answer) -> (u16, Vec<(String, String)>, String) {
    let headers = answer.headers.iter();
    let headers = headers.filter(|(name, _)| !["date", "x-request-id"].contains(&name.as_str()));
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = headers.map(|(name, value)| (name.to_string(), text(value)));
    (
        answer.status.as_u16(),
        headers.collect(),
        answer.text().to_owned(),
    )
}

/// The store, with keys that no other gateway of the test has.
fn apart(store: &str, prefix: impl std::fmt::Display) -> String {
    store.replace(
        "timeout: 5s",
        &format!("timeout: 5s, key_prefix: apart-{prefix}"),
    )
}

/// Requests of three clients in a mixed order.
const USERS: [&str; 16] = [
    "a", "a", "b", "a", "c", "a", "b", "a", "b", "b", "a", "c", "b", "a", "b", "c",
];

fn configuration(store: &str, observed: &str) -> String {
    let (limit, listed) = match observed {
        "" => (String::new(), ""),
        observed => (
            format!("  new: {{ {observed}, action: observe }}\n"),
            "new, ",
        ),
    };
    format!(
        "
{store}{TRUST}
headers: {{ ietf: draft-11 }}
limits:
  live: {{ fixed_window: {{ limit: 5, window: 31d }} }}
{limit}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [{listed}live] }}]
"
    )
}

async fn answers(yaml: &str) -> Vec<(u16, Vec<(String, String)>, String)> {
    let bench = Bench::start(yaml).await;
    let client = Client::new(bench.gateway.address);
    let client = client.knows("ratelimit").knows("ratelimit-policy");
    let mut answers = Vec::new();
    for user in USERS {
        let headers = [("x-user-id", user)];
        let mut answer = send(&client, http::Method::GET, "/", &headers).await;
        // How long a window lasts that began a month ago is new in every second.
        for name in ["ratelimit", "retry-after"] {
            if let Some(value) = answer.headers.get_mut(name) {
                *value = "told".parse().unwrap();
            }
        }
        let (status, headers, body) = seen(&answer);
        answers.push((
            status,
            headers,
            body.split("admitted in").next().unwrap().to_owned(),
        ));
    }
    bench.stop().await;
    answers
}

#[tokio::test]
async fn answers_are_those_without_it() {
    on_both_stores(async |store| {
        let without = answers(&configuration(&apart(store, "without"), "")).await;
        assert!(without.iter().any(|(status, ..)| *status == 429));
        let observed = [
            "fixed_window: { limit: 1, window: 31d }",
            "token_bucket: { capacity: 1, refill: 1/h }, block: 5m",
            "leaky_bucket: { queue: 2, drain: 1/h }",
            "concurrency: { limit: 1 }",
            "fixed_window: { limit: 1, window: 31d }, count: { status: [200] }",
            "fixed_window: { limit: 1, window: 31d }, on_failure: closed, mode: local",
        ];
        for (nth, observed) in observed.into_iter().enumerate() {
            let with = answers(&configuration(&apart(store, nth), observed)).await;
            for (with, without) in with.iter().zip(&without) {
                assert_eq!(with, without, "{observed}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn beside_a_limit_that_never_binds_it_counts_what_enforcing_refuses() {
    on_both_stores(async |store| {
        let mut counts = Vec::new();
        for (action, verdict) in [("reject", "refused"), ("observe", "would_refuse")] {
            let store = apart(store, action);
            let bench = Bench::start(&format!(
                "
{store}{TRUST}
limits:
  live: {{ fixed_window: {{ limit: 1000, window: 31d }} }}
  new: {{ token_bucket: {{ capacity: 3, refill: 1/h }}, action: {action} }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [live, new] }}]
"
            ))
            .await;
            let mut refused = 0;
            for user in USERS {
                let status = crate::kit::get(&bench.client, "/", &[("x-user-id", user)]).await;
                refused += u64::from(status == 429);
            }
            let (_, metrics) = page(bench.gateway.admin, "/metrics").await;
            let of_new = format!("tidegate_decisions_total{{limit=\"new\",verdict=\"{verdict}\"");
            let counted = metrics.lines().filter(|line| line.starts_with(&of_new));
            let counted: u64 = counted
                .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
                .sum();
            if action == "reject" {
                assert_eq!(counted, refused);
            } else {
                assert_eq!(refused, 0);
            }
            counts.push(counted);
            bench.stop().await;
        }
        assert_eq!(counts[0], counts[1]);
        assert!(counts[0] > 0);
    })
    .await;
}

/// What a live limit refuses is neither charged to it nor counted.
#[tokio::test]
async fn beside_a_limit_that_binds_it_speaks_of_what_went_through() {
    on_both_stores(async |store| {
        let bench = Bench::start(&format!(
            "
{store}
limits:
  live: {{ fixed_window: {{ limit: 4, window: 31d }} }}
  new: {{ fixed_window: {{ limit: 3, window: 31d }}, action: observe }}
routes: [{{ path: /**, upstream: UPSTREAM, limits: [live, new] }}]
"
        ))
        .await;
        for status in [200, 200, 200, 200, 429, 429, 429] {
            assert_eq!(bench.client.get("/").await.status, status);
        }
        for (verdict, count) in [("allowed", 3), ("would_refuse", 1)] {
            let labels = format!("limit=\"new\",verdict=\"{verdict}\",decided_by=\"store\"");
            let name = format!("tidegate_decisions_total{{{labels}}}");
            assert_eq!(sample(bench.gateway.admin, &name).await, count, "{verdict}");
        }
        let report = page_json(bench.gateway.admin, "/clients/ip:127.0.0.1").await;
        let new = &report["limits"][1];
        assert_eq!(
            (&new["observed"], &new["remaining"]),
            (&true.into(), &0.into())
        );
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_log_says_what_it_would_have_refused() {
    let upstream = Upstream::ok();
    let gateway = GatewayProcess::start(&format!(
        "
limits:
  new: {{ fixed_window: {{ limit: 1, window: 31d }}, action: observe }}
  newer: {{ fixed_window: {{ limit: 2, window: 31d }}, action: observe }}
routes: [{{ path: /**, upstream: \"{}\", limits: [new, newer] }}]
",
        upstream.url()
    ))
    .await;
    let client = Client::new(gateway.address);
    for (nth, would_refuse) in [Value::Null, "new".into(), "new, newer".into()]
        .iter()
        .enumerate()
    {
        assert_eq!(client.get("/").await.status, 200);
        let access = "\"target\":\"access\"";
        let line = gateway
            .process
            .wait_for_nth_line(access, nth + 1, LONG)
            .await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&line["would_refuse"], &line["limit"]),
            (would_refuse, &Value::Null)
        );
    }
}

#[tokio::test]
async fn without_a_store_it_does_nothing_either() {
    let redis = RedisServer::start().await;
    let upstream = Upstream::ok();
    let yaml = format!(
        "{}limits: {{ new: {{ fixed_window: {{ limit: 1, window: 31d }}, action: observe, on_failure: closed }} }}\n\
         routes: [{{ path: /**, upstream: \"{}\", limits: [new] }}]\n",
        exact(&redis),
        upstream.url()
    );
    let gateway = TestGateway::start(&yaml).await;
    let client = Client::new(gateway.address);
    assert_eq!(client.get("/").await.status, 200);
    redis.stop();
    assert_eq!(client.get("/").await.status, 200);
    gateway.stop().await;
}
