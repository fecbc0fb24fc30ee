//! How a route answers: which headers tell of limits, and what a refusal looks like; the same on both stores.

use http::{Response, StatusCode};
use serde_json::Value;
use tidegate_testkit::{Answer, Client, Upstream, body};

use crate::kit::{
    Bench, MONTH, Timed, epoch, number, on_both_stores, shown, tells_of_limits, told,
};
use crate::support::TestGateway;

const POLICY: &str = "ratelimit-policy";
const LEFT: &str = "ratelimit";

/// A client that knows the IETF's headers.
fn client(bench: &Bench) -> Client {
    Client::new(bench.gateway.address).knows(POLICY).knows(LEFT)
}

/// A limit of 3 a month and client, and the same for all, answered as `more` says.
async fn of_three(store: &str, more: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
{more}
limits:
  month: {{ fixed_window: {{ limit: 3, window: 31d }} }}
  burst: {{ token_bucket: {{ capacity: 60, refill: 6/1m }} }}
  all: {{ fixed_window: {{ limit: 2, window: 31d }}, per: [] }}
routes:
  - {{ path: /month, upstream: UPSTREAM, limits: [month, burst] }}
  - {{ path: /burst, upstream: UPSTREAM, limits: [burst] }}
  - {{ path: /all, upstream: UPSTREAM, limits: [burst, all] }}
  - {{ path: /own, upstream: UPSTREAM, limits: [month], headers: {{ reset: delta }} }}
  - {{ path: /silent, upstream: UPSTREAM, limits: [month], headers: none }}
"
    ))
    .await
}

/// The two fields of an answer, each of which is there once.
fn ietf(answer: &Answer) -> (&str, &str) {
    (answer.header(POLICY).unwrap(), answer.header(LEFT).unwrap())
}

/// The number behind `;t=`.
fn seconds(left: &str) -> u64 {
    left.split_once(";t=").unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn the_ietfs_headers_tell_all_policies_and_what_is_left_of_the_tightest() {
    on_both_stores(async |store| {
        let bench = of_three(store, "headers: { ietf: draft-11 }").await;
        let client = client(&bench);
        let policies = "\"month\";q=3;w=2678400, \"burst\";q=60;w=600";
        for left in [2, 1, 0] {
            let answer = client.get("/month").await;
            assert_eq!(told(&answer), shown(200, 3, left), "beside the others");
            let (policy, tightest) = ietf(&answer);
            assert_eq!(policy, policies);
            let start = format!("\"month\";r={left};t=");
            assert!(tightest.starts_with(&start), "{tightest}");
            let reset = number(&answer, "x-ratelimit-reset").unwrap();
            let end = epoch() / 1_000_000 + seconds(tightest);
            // Each of three times was rounded to a whole second.
            assert!((reset - 1..=reset + 30).contains(&end), "{end}, {reset}");
        }
        let refused = client.get("/month").await;
        assert_eq!(refused.status, 429);
        let (policy, tightest) = ietf(&refused);
        let wait = number(&refused, "retry-after").unwrap();
        assert_eq!(policy, policies);
        assert_eq!(tightest, format!("\"month\";r=0;t={wait}"));

        // What is left of a bucket lasts at its own pace: 6 a minute.
        let answer = client.get("/burst").await;
        let left = number(&answer, "x-ratelimit-remaining").unwrap();
        assert_eq!(ietf(&answer).0, "\"burst\";q=60;w=600");
        assert_eq!(
            ietf(&answer).1,
            format!("\"burst\";r={left};t={}", left * 10)
        );

        // What all share is told of when it refuses, and not before.
        for _ in 0..2 {
            let answer = client.get("/all").await;
            assert_eq!(ietf(&answer).0, "\"burst\";q=60;w=600");
        }
        let refused = client.get("/all").await;
        let policies = "\"burst\";q=60;w=600, \"all\";q=2;w=2678400";
        assert_eq!((refused.status.as_u16(), ietf(&refused).0), (429, policies));
        assert!(ietf(&refused).1.starts_with("\"all\";r=0;t="));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_reset_may_be_seconds_from_now() {
    on_both_stores(async |store| {
        let bench = of_three(store, "headers: { reset: delta }").await;
        for path in ["/month", "/own"] {
            let timed = Timed::get(&bench.client, path).await;
            let end = (timed.at.start() / MONTH + 1) * MONTH;
            timed.has(
                "x-ratelimit-reset",
                end - timed.at.end()..=end - timed.at.start(),
            );
        }
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn where_no_headers_are_wanted_there_are_none_but_retry_after() {
    on_both_stores(async |store| {
        let bench = of_three(store, "headers: none").await;
        for status in [200, 200, 200, 429] {
            let answer = bench.client.get("/month").await;
            assert_eq!(answer.status, status);
            assert!(!tells_of_limits(&answer), "{:?}", answer.headers);
            assert_eq!(answer.header("retry-after").is_some(), status == 429);
        }
        bench.stop().await;
        // A route may have its own.
        let bench = of_three(store, "").await;
        assert!(!tells_of_limits(&bench.client.get("/silent").await));
        bench.stop().await;
    })
    .await;
}

/// An upstream that limits by itself, behind a limit of ten that is told of as `headers` says.
async fn behind_ten(headers: &str) -> (Upstream, TestGateway) {
    let upstream = Upstream::start(|_| async {
        let answer = Response::builder()
            .header("x-ratelimit-limit", "50")
            .header("x-ratelimit-remaining", "40")
            .header("x-ratelimit-reset", "12")
            .header(POLICY, "\"theirs\";q=50;w=60")
            .header(LEFT, "\"theirs\";r=40;t=12");
        answer.body(body::empty()).unwrap()
    });
    let url = upstream.url();
    let gateway = TestGateway::start(&format!(
        "
headers: {headers}
limits: {{ ten: {{ fixed_window: {{ limit: 10, window: 1d }} }} }}
routes: [{{ path: /**, upstream: \"{url}\", limits: [ten] }}]
"
    ))
    .await;
    (upstream, gateway)
}

#[tokio::test]
async fn an_upstreams_own_policies_stand_before_ours() {
    let (_upstream, gateway) = behind_ten("{ ietf: draft-11 }").await;
    let client = Client::new(gateway.address).knows(POLICY).knows(LEFT);
    let answer = client.get("/").await;
    let (policy, left) = ietf(&answer);
    assert_eq!(policy, "\"theirs\";q=50;w=60, \"ten\";q=10;w=86400");
    let ours = "\"theirs\";r=40;t=12, \"ten\";r=9;t=";
    assert!(left.starts_with(ours), "{left}");
    assert_eq!(told(&answer), shown(200, 10, 9));
    gateway.stop().await;
}

#[tokio::test]
async fn what_we_do_not_write_we_leave_as_the_upstream_wrote_it() {
    for headers in ["none", "x-ratelimit"] {
        let (_upstream, gateway) = behind_ten(headers).await;
        let client = Client::new(gateway.address).knows(POLICY).knows(LEFT);
        let answer = client.get("/").await;
        let theirs = ("\"theirs\";q=50;w=60", "\"theirs\";r=40;t=12");
        assert_eq!(ietf(&answer), theirs);
        let limit = if headers == "none" { 50 } else { 10 };
        assert_eq!(number(&answer, "x-ratelimit-limit"), Some(limit));
        gateway.stop().await;
    }
}

/// A gateway whose refusals look otherwise, on a route that has its own once more, and on no route at all.
async fn with_own_refusals(store: &str) -> Bench {
    Bench::start(&format!(
        "
{store}
reject: {{ status: 503, content_type: application/json, body: '{{\"busy\":true}}' }}
limits:
  one: {{ fixed_window: {{ limit: 1, window: 31d }}, per: [ip, route] }}
always: [one]
routes:
  - {{ path: /as-all, upstream: UPSTREAM }}
  - {{ path: /page, upstream: UPSTREAM, reject: {{ body: \"Slow down, please.\" }} }}
  - {{ path: /status, upstream: UPSTREAM, reject: {{ status: 420 }} }}
  - {{ path: /default, upstream: UPSTREAM, reject: {{}} }}
"
    ))
    .await
}

#[tokio::test]
async fn a_refusal_looks_as_the_route_or_the_file_says() {
    on_both_stores(async |store| {
        let bench = with_own_refusals(store).await;
        let (json, problem) = ("application/json", "application/problem+json");
        for (path, status, kind, says) in [
            ("/as-all", 503, json, "{\"busy\":true}"),
            ("/nowhere", 503, json, "{\"busy\":true}"),
            (
                "/page",
                429,
                "text/plain; charset=utf-8",
                "Slow down, please.",
            ),
            ("/status", 420, problem, ""),
            ("/default", 429, problem, ""),
        ] {
            bench.client.get(path).await;
            let answer = bench.client.get(path).await;
            assert_eq!(told(&answer), shown(status, 1, 0), "{path}");
            assert_eq!(answer.header("content-type"), Some(kind), "{path}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{path}");
            assert!(number(&answer, "retry-after").unwrap() >= 1, "{path}");
            if kind == problem {
                let body: Value = serde_json::from_slice(&answer.body).unwrap();
                assert_eq!(body["status"], status);
                assert_eq!(body["error"], "rate_limit_exceeded");
            } else {
                assert_eq!(answer.text(), says, "{path}");
            }
        }
        bench.stop().await;
    })
    .await;
}

/// Only what limits refuse looks otherwise.
#[tokio::test]
async fn other_refusals_look_as_ever() {
    let bench = Bench::start(
        "
trusted_proxies: [127.0.0.1]
reject: { status: 503, body: busy }
limits:
  ten: { fixed_window: { limit: 10, window: 31d }, cost: { header: X-Cost, max: 50 } }
routes:
  - { path: /here, upstream: UPSTREAM, limits: [ten] }
",
    )
    .await;
    assert_eq!(
        bench.client.get("/nowhere").await.status,
        StatusCode::NOT_FOUND
    );
    let answer = crate::callers::ask(&bench.client, "/here", &[("x-cost", "11")]).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert!(answer.text().contains("cost_exceeds_limit"));
    bench.stop().await;
}
