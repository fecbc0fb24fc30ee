//! Both stores, requests in one line, and answers as numbers.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_testkit::{Answer, Client, RedisServer, Upstream};
use tokio::task::JoinHandle;

use crate::support::TestGateway;
pub(crate) use crate::support::asking::{
    LONG, answer_to, get, get_each, json_of, page, page_json, raw_status, ready, sample,
    sample_becomes, sample_if_any, send, send_body, send_get, until,
};
pub(crate) use crate::support::held::{as_asked, held, held_with};

pub(crate) const HOUR: u64 = 3_600_000_000;
/// The longest window; no test runs long enough to see more than one of its ends.
pub(crate) const MONTH: u64 = 31 * 24 * HOUR;

/// Runs a case on the memory store and on a Redis of its own; the case gets the YAML of the store.
pub(crate) async fn on_both_stores(case: impl AsyncFn(&str)) {
    eprintln!("on the memory store:");
    case("store: memory\n").await;
    eprintln!("on Redis:");
    let redis = RedisServer::start().await;
    case(&exact(&redis)).await;
}

/// The store of exactness tests: Redis decides, however busy this machine is, or a 503 says that it did not.
pub(crate) fn exact(redis: &RedisServer) -> String {
    let url = redis.url();
    format!("store: {{ redis: {{ url: \"{url}\", timeout: 5s, on_failure: closed }} }}\n")
}

/// A gateway in this process, with an upstream that answers everything.
pub(crate) struct Bench {
    pub(crate) upstream: Upstream,
    pub(crate) gateway: TestGateway,
    pub(crate) client: Client,
}

impl Bench {
    /// Starts both; in `yaml`, UPSTREAM stands for the upstream's URL.
    pub(crate) async fn start(yaml: &str) -> Self {
        Self::with(Upstream::ok(), yaml).await
    }

    /// As [`start`](Self::start), with this upstream.
    pub(crate) async fn with(upstream: Upstream, yaml: &str) -> Self {
        let gateway = TestGateway::start(&yaml.replace("UPSTREAM", &upstream.url())).await;
        let client = Client::new(gateway.address);
        Self {
            upstream,
            gateway,
            client,
        }
    }

    /// One limit on one route for everything, counted per client unless `limit` says otherwise.
    pub(crate) async fn of_limit(store: &str, limit: &str) -> Self {
        Self::start(&format!(
            "
{store}
limits:
  it: {{ {limit} }}
routes:
  - {{ path: /**, upstream: UPSTREAM, limits: [it] }}
"
        ))
        .await
    }

    pub(crate) async fn stop(self) {
        self.gateway.stop().await;
    }
}

/// A configuration of one limit, `it`, on everything, for gateways that share a store.
pub(crate) fn one_limit(store: &str, limit: &str, upstream: &Upstream) -> String {
    limit_named(store, "it", limit, upstream)
}

/// As [`one_limit`], with a limit of this name, which has a state of its own.
pub(crate) fn limit_named(store: &str, name: &str, limit: &str, upstream: &Upstream) -> String {
    let url = upstream.url();
    format!(
        "{store}secret: the same\nlimits: {{ {name}: {{ {limit} }} }}\n\
         routes: [{{ path: /**, upstream: \"{url}\", limits: [{name}] }}]\n"
    )
}

/// A header that is a number.
pub(crate) fn number(answer: &Answer, name: &str) -> Option<u64> {
    let text = answer.header(name)?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

/// Status, limit and remaining.
pub(crate) fn told(answer: &Answer) -> (u16, Option<u64>, Option<u64>) {
    (
        answer.status.as_u16(),
        number(answer, "x-ratelimit-limit"),
        number(answer, "x-ratelimit-remaining"),
    )
}

/// As [`told`] of an answer that has all three.
pub(crate) fn shown(status: u16, limit: u64, remaining: u64) -> (u16, Option<u64>, Option<u64>) {
    (status, Some(limit), Some(remaining))
}

/// Whether an answer has any of the headers that tell of limits.
pub(crate) fn tells_of_limits(answer: &Answer) -> bool {
    let names = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    names.iter().any(|name| answer.header(name).is_some())
}

/// An answer, and the span of time in which it was decided.
pub(crate) struct Timed {
    pub(crate) answer: Answer,
    pub(crate) at: RangeInclusive<u64>,
}

impl Timed {
    pub(crate) async fn get(client: &Client, target: &str) -> Self {
        let before = epoch();
        let answer = client.get(target).await;
        Self {
            answer,
            at: before..=epoch(),
        }
    }

    /// Demands that a header of this answer is one of these times, which are in us, rounded up to whole seconds.
    pub(crate) fn has(&self, name: &str, times: RangeInclusive<u64>) {
        // From windows of an hour up, the sliding counter knows whole milliseconds only.
        const COARSE: u64 = 2_000;
        let seconds = |micros: u64| micros.div_ceil(1_000_000);
        let expected = seconds(times.start() - COARSE)..=seconds(times.end() + COARSE);
        let value = number(&self.answer, name).unwrap_or_else(|| panic!("no {name}"));
        assert!(
            expected.contains(&value),
            "{name}: {value}, not {expected:?}"
        );
    }

    /// Demands a `Retry-After` that points at these times.
    pub(crate) fn may_come_back_at(&self, times: RangeInclusive<u64>) {
        let wait = times.start() - self.at.end()..=times.end() - self.at.start();
        self.has("retry-after", wait);
    }
}

/// A span of time, moved on.
pub(crate) fn after(span: &RangeInclusive<u64>, micros: u64) -> RangeInclusive<u64> {
    span.start() + micros..=span.end() + micros
}

/// Now, in us since the epoch, by the clock that the stores of this machine have.
pub(crate) fn epoch() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_micros().try_into().unwrap()
}

/// Waits until so many requests wait in a gateway.
pub(crate) async fn waiting(admin: SocketAddr, count: u64) {
    sample_becomes(admin, "tidegate_waiting_requests", count).await;
}

/// What is left of the first limit that the client at 127.0.0.1 has to itself.
pub(crate) async fn left(admin: SocketAddr) -> u64 {
    let report = page_json(admin, "/clients/ip:127.0.0.1").await;
    report["limits"][0]["remaining"].as_u64().unwrap()
}

/// A request that is under way; its client leaves when this is aborted.
pub(crate) fn ask(gateway: SocketAddr, target: impl Into<String>) -> JoinHandle<Answer> {
    let target = target.into();
    tokio::spawn(async move { Client::fresh(gateway).get(&target).await })
}
