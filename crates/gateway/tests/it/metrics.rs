//! What `/metrics` counts, to the request.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use http::Response;
use http_body_util::BodyExt;
use tidegate_testkit::{RawClient, RedisServer, Upstream, body};

use crate::kit::{Bench, LONG, exact, page, ready, send_get};

/// The samples of a page, by name and labels as they are written.
struct Samples(HashMap<String, f64>);

impl Samples {
    async fn of(bench: &Bench) -> Self {
        let (_, samples) = page(bench.gateway.admin, "/metrics").await;
        let samples = samples.lines().filter(|line| !line.starts_with('#'));
        let samples = samples.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        });
        Self(samples.collect())
    }

    fn get(&self, name: &str) -> f64 {
        let sample = self.0.get(name);
        *sample.unwrap_or_else(|| panic!("no {name} in {:#?}", self.0))
    }

    /// The requests of a route that had this outcome, whatever their status.
    fn requests(&self, route: &str, outcome: &str) -> f64 {
        let labels = format!("{{route=\"{route}\",outcome=\"{outcome}\",status=");
        self.0
            .iter()
            .filter_map(|(name, count)| name.contains(&labels).then_some(count))
            .sum()
    }

    fn decisions(&self, limit: &str, verdict: &str, by: &str) -> f64 {
        let labels = format!("limit=\"{limit}\",verdict=\"{verdict}\",decided_by=\"{by}\"");
        self.get(&format!("tidegate_decisions_total{{{labels}}}"))
    }

    fn forwarded(&self, route: &str) -> f64 {
        self.get(&format!(
            "tidegate_upstream_duration_seconds_count{{route=\"{route}\"}}"
        ))
    }

    /// The sum of all samples of this name.
    fn sum(&self, name: &str) -> f64 {
        let of_name = |sample: &&String| sample.split('{').next() == Some(name);
        let names = self.0.keys().filter(of_name);
        names.map(|name| self.get(name)).sum()
    }
}

/// Traffic of every outcome but 503.
async fn traffic(store: &str) -> Samples {
    let never = Upstream::start(|_| std::future::pending::<Response<_>>());
    let dead = Upstream::ok();
    dead.stop().await;
    let bench = Bench::start(&format!(
        "
{store}
limits:
  few: {{ fixed_window: {{ limit: 2, window: 31d }} }}
  guard: {{ fixed_window: {{ limit: 100, window: 31d }}, per: [ip] }}
always: [guard]
routes:
  - {{ name: api, path: /api, upstream: UPSTREAM, limits: [few] }}
  - {{ name: dead, path: /dead, upstream: \"{}\" }}
  - {{ name: never, path: /never, upstream: \"{}\" }}
  - {{ name: unused, path: /unused, upstream: UPSTREAM }}
",
        dead.url(),
        never.url()
    ))
    .await;
    for (path, status) in [
        ("/api", 200),
        ("/api", 200),
        ("/api", 429),
        ("/nowhere", 404),
        ("/api%zz", 400),
        ("/dead", 502),
    ] {
        assert_eq!(bench.client.get(path).await.status, status);
    }
    let mut leaving = RawClient::connect(bench.gateway.address).await;
    send_get(&mut leaving, "/never").await;
    never.wait_for(1, LONG).await;
    drop(leaving);
    while Samples::of(&bench).await.requests("never", "abandoned") == 0.0 {
        tokio::task::yield_now().await;
    }
    let samples = Samples::of(&bench).await;
    bench.stop().await;
    samples
}

fn counts(samples: &Samples) {
    for (route, outcome, count) in [
        ("api", "forwarded", 2.0),
        ("api", "limited", 1.0),
        ("none", "rejected", 2.0),
        ("dead", "failed", 1.0),
        ("never", "abandoned", 1.0),
    ] {
        assert_eq!(samples.requests(route, outcome), count, "{route} {outcome}");
    }
    assert_eq!(
        samples.sum("tidegate_requests_total"),
        7.0,
        "nothing is counted twice"
    );
    for status in ["2xx", "3xx", "4xx", "5xx"] {
        // Every route is there from the start.
        let labels = format!("route=\"unused\",outcome=\"forwarded\",status=\"{status}\"");
        assert_eq!(
            samples.get(&format!("tidegate_requests_total{{{labels}}}")),
            0.0
        );
    }

    assert_eq!(samples.decisions("few", "allowed", "store"), 2.0);
    assert_eq!(samples.decisions("few", "refused", "store"), 1.0);
    assert_eq!(samples.decisions("guard", "refused", "store"), 0.0);
    for limit in ["few", "guard"] {
        assert_eq!(samples.decisions(limit, "undecided", "on_failure"), 0.0);
        assert_eq!(samples.decisions(limit, "allowed", "on_failure"), 0.0);
    }

    // An upstream that did not answer took no time to do so.
    assert_eq!(samples.forwarded("api"), 2.0);
    assert_eq!(samples.sum("tidegate_upstream_duration_seconds_count"), 2.0);
    let buckets = "tidegate_upstream_duration_seconds_bucket{le=\"+Inf\",route=\"api\"}";
    assert_eq!(samples.get(buckets), 2.0);
    let sum = samples.get("tidegate_upstream_duration_seconds_sum{route=\"api\"}");
    assert!(sum > 0.0 && sum < LONG.as_secs_f64(), "{sum} s");
    // Each request took some time, and what its upstream took is a part of it.
    let durations = samples.sum("tidegate_request_duration_seconds_count");
    assert_eq!(durations, samples.sum("tidegate_requests_total"));
    let whole = samples.get("tidegate_request_duration_seconds_sum{route=\"api\"}");
    assert!(whole >= sum, "{whole} s of {sum} s");

    for quiet in [
        "tidegate_connections_refused_total{reason=\"max_connections\"}",
        "tidegate_connections_refused_total{reason=\"max_memory\"}",
        "tidegate_idle_connections_closed_total",
        "tidegate_memory_pressure",
        "tidegate_access_log_dropped_lines_total",
        "tidegate_memory_evicted_keys_total",
        "tidegate_memory_shared_decisions_total",
    ] {
        assert_eq!(samples.get(quiet), 0.0, "{quiet}");
    }
}

#[tokio::test]
async fn every_request_is_counted_once_in_memory() {
    let samples = traffic("store: memory").await;
    counts(&samples);
    assert_eq!(samples.get("tidegate_store_duration_seconds_count"), 0.0);
    assert_eq!(
        samples.get("tidegate_memory_keys"),
        2.0,
        "a key per limit of the one client"
    );
}

#[tokio::test]
async fn every_request_is_counted_once_with_redis() {
    let redis = RedisServer::start().await;
    let samples = traffic(&exact(&redis)).await;
    counts(&samples);
    let decided = samples.get("tidegate_store_duration_seconds_count");
    let guarded = samples.decisions("guard", "allowed", "store");
    assert_eq!(decided, guarded, "one call for all limits of a request");
    let all = samples.get("tidegate_store_duration_seconds_bucket{le=\"+Inf\"}");
    assert_eq!(all, decided);
    assert_eq!(samples.get("tidegate_memory_keys"), 0.0);
    assert_eq!(samples.sum("tidegate_store_errors_total"), 0.0);
}

#[tokio::test]
async fn an_outage_is_counted_by_reason_and_by_what_decided_instead() {
    let redis = RedisServer::start().await;
    let url = redis.url();
    let bench = Bench::start(&format!(
        "
store: {{ redis: {{ url: \"{url}\", timeout: 5s }} }}
limits:
  open: {{ fixed_window: {{ limit: 9, window: 31d }}, on_failure: open }}
  local: {{ fixed_window: {{ limit: 1, window: 31d }} }}
  closed: {{ fixed_window: {{ limit: 9, window: 31d }}, on_failure: closed }}
routes:
  - {{ name: local, path: /local, upstream: UPSTREAM, limits: [open, local] }}
  - {{ name: closed, path: /closed, upstream: UPSTREAM, limits: [closed] }}
"
    ))
    .await;
    redis.stop();
    ready(bench.gateway.admin, 503).await;
    for (path, status) in [("/local", 200), ("/local", 429), ("/closed", 503)] {
        assert_eq!(bench.client.get(path).await.status, status);
    }
    let samples = Samples::of(&bench).await;
    assert_eq!(samples.requests("local", "forwarded"), 1.0);
    assert_eq!(samples.requests("local", "limited"), 1.0);
    assert_eq!(samples.requests("closed", "unavailable"), 1.0);
    assert_eq!(samples.decisions("open", "undecided", "on_failure"), 2.0);
    assert_eq!(samples.decisions("local", "allowed", "on_failure"), 1.0);
    assert_eq!(samples.decisions("local", "refused", "on_failure"), 1.0);
    assert_eq!(samples.decisions("closed", "undecided", "on_failure"), 1.0);
    assert_eq!(samples.sum("tidegate_store_errors_total"), 3.0);
    assert_eq!(
        samples.get("tidegate_store_errors_total{error=\"disconnected\"}"),
        3.0
    );
    assert_eq!(samples.get("tidegate_memory_keys"), 1.0);
    bench.stop().await;
}

/// The metrics of the table in docs/operations.md, each with its labels.
fn documented() -> BTreeMap<String, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations.md");
    let page = fs::read_to_string(page).unwrap();
    let begins = ["| `tidegate_", "| `process_"];
    let rows = page
        .lines()
        .filter(|line| begins.iter().any(|begin| line.starts_with(begin)));
    let rows: BTreeMap<_, _> = rows
        .map(|row| {
            let mut cells = row.split('|').skip(1).map(|cell| cell.trim().to_owned());
            let name = cells.next().unwrap().replace('`', "");
            (name, cells.next().unwrap())
        })
        .collect();
    assert!(rows.len() >= 50, "{rows:?}");
    rows
}

#[tokio::test]
async fn every_metric_says_what_it_is_and_has_a_row() {
    let bench = Bench::of_limit("", "fixed_window: { limit: 1, window: 31d }").await;
    let (_, text) = page(bench.gateway.admin, "/metrics").await;
    let words = |kind: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        lines
            .map(|line| line.trim().split(' ').next().unwrap().to_owned())
            .collect()
    };
    let named = words("# HELP");
    assert_eq!(named, words("# TYPE"));
    let rows = documented();
    for name in &named {
        assert!(rows.contains_key(name), "{name} has no row");
        assert_eq!(named.iter().filter(|other| *other == name).count(), 1);
    }
    // Labels may have no value yet. What has none is there from the start, but for what Redis says.
    for (name, labels) in rows {
        let is_due = labels.is_empty() && !name.starts_with("tidegate_redis_");
        assert!(!is_due || named.contains(&name), "{name} is not there");
    }
    bench.stop().await;
}

/// Returns the bytes of bodies of a route, to the upstream and to the client.
async fn bytes(bench: &Bench, route: &str) -> [f64; 2] {
    let samples = Samples::of(bench).await;
    ["request", "response"]
        .map(|name| samples.get(&format!("tidegate_{name}_bytes_total{{route=\"{route}\"}}")))
}

/// A request that is refused has an answer, and its body goes nowhere.
#[tokio::test]
async fn bytes_of_bodies_are_counted_by_route() {
    let bench = Bench::with(
        Upstream::echo(),
        "
log: { access: false }
limits:
  two: { fixed_window: { limit: 2, window: 31d }, per: [] }
routes:
  - { name: api, path: /api, upstream: UPSTREAM, limits: [two] }
  - { name: other, path: /other, upstream: UPSTREAM }
",
    )
    .await;
    let client = &bench.client;
    let post = |path: &str, text: &'static str| {
        let request = http::Request::post(path).body(body::full(text)).unwrap();
        client.request(request)
    };
    assert_eq!(bytes(&bench, "api").await, [0.0, 0.0]);
    assert_eq!(post("/api", "12345").await.text(), "12345");
    assert_eq!(post("/api", "678").await.text(), "678");
    assert_eq!(post("/other", "1234567").await.text(), "1234567");
    assert_eq!(bytes(&bench, "api").await, [8.0, 8.0]);
    let refused = post("/api", "9").await;
    assert_eq!(refused.status, 429);
    let answer = refused.text().len() as f64;
    assert!(answer > 100.0);
    assert_eq!(bytes(&bench, "api").await, [8.0, 8.0 + answer]);
    assert_eq!(bytes(&bench, "other").await, [7.0, 7.0]);
    let unmatched = client.get("/nowhere").await.text().len() as f64;
    assert_eq!(bytes(&bench, "none").await, [0.0, unmatched]);
}

/// The counters do not wait for the end of a stream.
#[tokio::test]
async fn bytes_of_a_stream_are_counted_while_it_passes() {
    let bench = Bench::with(
        Upstream::echo(),
        "routes: [{ name: api, path: /**, upstream: UPSTREAM }]\n",
    )
    .await;
    let client = &bench.client;
    let (mut sender, streamed) = body::channel();
    let request = http::Request::post("/").body(streamed).unwrap();
    sender.send_data("one".into()).await.unwrap();
    let mut answer = client.open(request).await;
    let part = answer.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(part.into_data().unwrap(), "one");
    assert_eq!(bytes(&bench, "api").await, [3.0, 3.0]);
}
