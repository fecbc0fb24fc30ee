//! Both stores, requests in one line, and answers as numbers.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{Method, Request};
use tidegate_testkit::{Answer, Client, RedisServer, Upstream, body};
use tokio::task::JoinHandle;

use crate::support::TestGateway;

/// Long enough for anything that must happen on a busy machine, short enough to be waited for when it does not.
pub(crate) const LONG: Duration = Duration::from_secs(20);

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

/// Sends a request without a body.
pub(crate) async fn send(
    client: &Client,
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.request(request.body(body::empty()).unwrap()).await
}

/// The status of a GET with these headers.
pub(crate) async fn get(client: &Client, target: &str, headers: &[(&str, &str)]) -> u16 {
    let answer = send(client, Method::GET, target, headers).await;
    answer.status.as_u16()
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

/// What a page of the admin port says, and its status.
pub(crate) async fn page(admin: SocketAddr, path: &str) -> (u16, String) {
    let answer = Client::fresh(admin).get(path).await;
    (answer.status.as_u16(), answer.text().to_owned())
}

/// Waits until `/readyz` answers so; gives back what it says.
pub(crate) async fn ready(admin: SocketAddr, status: u16) -> String {
    let deadline = Instant::now() + LONG;
    loop {
        let (found, text) = page(admin, "/readyz").await;
        if found == status {
            return text;
        }
        assert!(Instant::now() < deadline, "/readyz stays {found}: {text}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A sample of the gateway's metrics, by its name and labels as they are written there.
pub(crate) async fn sample(admin: SocketAddr, name: &str) -> u64 {
    let (_, metrics) = page(admin, "/metrics").await;
    let value = metrics
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no {name}\n{metrics}"));
    value
        .parse()
        .unwrap_or_else(|_| panic!("{name} is {value}"))
}

/// Asks again and again until the answer is yes.
pub(crate) async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so().await {
        assert!(Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Waits until so many requests wait in a gateway.
pub(crate) async fn waiting(admin: SocketAddr, count: u64) {
    until(&format!("{count} requests wait"), async || {
        sample(admin, "tidegate_waiting_requests").await == count
    })
    .await;
}

/// What is left of the first limit that the client at 127.0.0.1 has to itself.
pub(crate) async fn left(admin: SocketAddr) -> u64 {
    let (status, report) = page(admin, "/clients/ip:127.0.0.1").await;
    assert_eq!(status, 200, "{report}");
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["limits"][0]["remaining"].as_u64().unwrap()
}

/// A request that is under way; its client leaves when this is aborted.
pub(crate) fn ask(gateway: SocketAddr, target: impl Into<String>) -> JoinHandle<Answer> {
    let target = target.into();
    tokio::spawn(async move { Client::fresh(gateway).get(&target).await })
}
