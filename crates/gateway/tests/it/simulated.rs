//! `tidegate simulate` on the log of a real gateway: it decides as the gateway did, for each single request.

mod asked;
mod credentials;
mod delayed;
mod edges;
mod interrupted;
mod lacking;
mod misread;
mod running;
mod settled;
mod suggested;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::Request;
use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::{Client, RedisServer, Upstream, body};

use crate::access_log_file::{lines, log, objects};
use crate::kit::exact;
use crate::support::TestGateway;
use crate::support::commands::{ended, tidegate};

/// What a replay needs of the log.
const FIELDS: &str = "format: json, fields: [id, method, host, path, protocol, status, outcome, route, door, peer, client_ip, client, plan, \
    refused_by, decided_by, decided_at, would_refuse, cost, upstream_status, waited_us, total_us]";

/// One of each algorithm, and what limits can do beside it. Windows are short, so that some end while requests come.
const LIMITS: &str = r#"
  bucket: { token_bucket: { capacity: 4, refill: 20/s }, MORE }
  leaky: { leaky_bucket: { queue: 3, drain: 25/s, nodelay: true }, MORE }
  fixed: { fixed_window: { limit: 4, window: 500ms }, MORE }
  log: { sliding_window_log: { limit: 4, window: 400ms }, MORE }
  counter: { sliding_window_counter: { limit: 4, window: 400ms }, MORE }
  daily: { fixed_window: { limit: 40, window: 1d, zone: Europe/Berlin }, MORE }
  shared: { token_bucket: { capacity: 20, refill: 60/s }, per: [], MORE }
  per-route: { fixed_window: { limit: 3, window: 300ms }, per: [client, route, method], MORE }
  blocking: { sliding_window_log: { limit: 5, window: 500ms }, block: 200ms, MORE }
  costly: { token_bucket: { capacity: 15, refill: 90/s }, cost: { header: X-Cost, max: 9 }, MORE }
"#;

const NAMES: [&str; 10] = [
    "bucket",
    "leaky",
    "fixed",
    "log",
    "counter",
    "daily",
    "shared",
    "per-route",
    "blocking",
    "costly",
];

/// A folder with a configuration and a log.
struct Recording {
    _folder: TempDir,
    config: PathBuf,
    log: PathBuf,
}

/// Numbers that look random, and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// Sends requests of several clients at once through a gateway with these limits and routes, and keeps its log.
async fn record(store: &str, limits: &str, routes: &str) -> Recording {
    let upstream = Upstream::ok();
    let (gateway, recording) =
        start(store, limits, &routes.replace("UPSTREAM", &upstream.url())).await;
    let senders = (0..8_u64).map(|sender| {
        let client = Client::new(gateway.address);
        tokio::spawn(async move {
            let mut random = Random(sender + 1);
            for nth in 0..60_u64 {
                let user = format!("u{}", random.below(2));
                // Several senders meet on a route for a while, so that its limits are exceeded.
                let name = NAMES[(nth / 6 + sender / 4) as usize % NAMES.len()];
                let rest = "x".repeat(random.below(4) as usize);
                let request = Request::builder()
                    .method(["GET", "POST"][random.below(2) as usize])
                    .uri(format!("/{name}/{rest}"))
                    .header("x-cost", random.below(12).to_string());
                // Some have no name but their address.
                let request = match random.below(8) {
                    0 => request.header("x-forwarded-for", "198.51.100.7"),
                    _ => request.header("x-user-id", user),
                };
                client.request(request.body(body::empty()).unwrap()).await;
                if nth.is_multiple_of(5) {
                    tokio::time::sleep(Duration::from_millis(random.below(40))).await;
                }
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    gateway.stop().await;
    recording
}

/// A gateway with these limits and routes, and where its log is.
async fn start(store: &str, limits: &str, routes: &str) -> (TestGateway, Recording) {
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = (
        folder.path().join("gateway.yaml"),
        folder.path().join("access.log"),
    );
    let yaml = format!(
        "{store}
log: {{ {} }}
trusted_proxies: [127.0.0.1]
clients: [{{ user_id: {{}} }}, {{ ip: {{}} }}]
limits:
{limits}
routes:
{routes}
",
        log(&file, FIELDS),
    );
    fs::write(&config, &yaml).unwrap();
    let gateway = TestGateway::start(&yaml).await;
    let recording = Recording {
        _folder: folder,
        config,
        log: file,
    };
    (gateway, recording)
}

/// What the command prints on standard output, if it succeeds.
fn simulate(arguments: &[&str], files: &[&Path]) -> String {
    let mut command = tidegate(&["simulate"]);
    let (status, out, err) = ended(command.args(arguments).args(files));
    assert_eq!(status, Some(0), "{err}");
    out
}

/// The report on a log by a configuration, with these options.
fn report(options: &[&str], config: &Path, log: &Path) -> Value {
    let all = [&["-c", config.to_str().unwrap(), "--json"], options].concat();
    serde_json::from_str(&simulate(&all, &[log])).unwrap()
}

/// Exit status and errors of a run that may fail.
fn tried(options: &[&str], config: &Path, log: &Path) -> (Option<i32>, String) {
    let mut command = tidegate(&["simulate"]);
    let (status, _, err) = ended(command.args(options).arg("-c").arg(config).arg(log));
    (status, err)
}

/// What became of each request by its ID: whether limits admitted it, which of them refused, and which would have.
type Decisions = BTreeMap<String, (bool, Vec<String>, Vec<String>)>;

/// The decisions in the lines of a file.
fn decisions(
    file: &Path,
    admitted: impl Fn(&Value) -> bool,
    names: impl Fn(&Value) -> Vec<String>,
) -> Decisions {
    let lines = objects(&lines(file));
    let decisions = lines.iter().map(|line| {
        let (refused, would) = (names(&line["refused_by"]), names(&line["would_refuse"]));
        let id = line["id"].as_str().unwrap().to_owned();
        (id, (admitted(line), refused, would))
    });
    decisions.collect()
}

impl Recording {
    /// What the gateway decided.
    fn happened(&self) -> Decisions {
        let names = |value: &Value| {
            let names = value.as_str().unwrap_or_default().split(',');
            let names = names.map(|name| name.trim().to_owned());
            names.filter(|name| !name.is_empty()).collect()
        };
        let admitted = |line: &Value| line["outcome"] == "forwarded";
        decisions(&self.log, admitted, names)
    }

    /// What the replay decides.
    fn simulated(&self) -> Decisions {
        let file = self.log.with_extension("decisions");
        let config = self.config.to_str().unwrap();
        let written = file.to_str().unwrap();
        let report = simulate(
            &["-c", config, "--json", "--strict", "--decisions", written],
            &[&self.log],
        );
        let report: Value = serde_json::from_str(&report).unwrap();
        let limits = report["configurations"][0]["limits"].as_array().unwrap();
        for limit in limits {
            assert_eq!(limit["not_computable"], serde_json::json!([]), "{limit:#}");
        }
        let names = |value: &Value| {
            let names = value.as_array().unwrap().iter();
            names
                .map(|name| name.as_str().unwrap().to_owned())
                .collect()
        };
        let admitted = |line: &Value| line["decision"] == "admitted";
        decisions(&file, admitted, names)
    }

    /// Requests that were decided in one microsecond on one route may have come in either order.
    fn twins(&self) -> BTreeMap<String, String> {
        let lines = objects(&lines(&self.log));
        let twins = lines.iter().map(|line| {
            let id = line["id"].as_str().unwrap().to_owned();
            (id, format!("{} {}", line["decided_at"], line["route"]))
        });
        twins.collect()
    }

    /// Demands that both agree, and that each of these limits refused and admitted.
    fn agree(&self, names: &[&str]) {
        let (happened, simulated) = (self.happened(), self.simulated());
        let twins = self.twins();
        let mut differing = Vec::new();
        for (id, decided) in &happened {
            if simulated.get(id) != Some(decided) {
                differing.push((&twins[id], decided, simulated.get(id)));
            }
        }
        // Redis has one time for all scripts that it runs in a row.
        differing.retain(|(twin, decided, found)| {
            let mut others = happened.iter().filter(|(id, _)| twins[*id] == **twin);
            let swapped = others
                .any(|(id, other)| Some(other) == *found && simulated.get(id) == Some(decided));
            !swapped
        });
        assert!(
            differing.is_empty(),
            "{} of {}: {differing:#?}",
            differing.len(),
            happened.len()
        );
        for name in names {
            let refused = happened.values().filter(|(_, refused, would)| {
                refused.iter().chain(would).any(|limit| limit == name)
            });
            let refused = refused.count();
            assert!(
                refused > 0 && refused < happened.len(),
                "{name} refused {refused}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_observed_limits_would_refuse_is_found_again_to_the_request() {
    let limits = LIMITS.replace("MORE", "action: observe");
    let routes = format!(
        "  - {{ path: /**, upstream: UPSTREAM, limits: [{}] }}",
        NAMES.join(", ")
    );
    let recording = record("store: memory", &limits, &routes).await;
    recording.agree(&NAMES);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_limits_refused_is_found_again_to_the_request() {
    let limits = LIMITS.replace(", MORE", "");
    let routes: String = NAMES
        .iter()
        .map(|name| {
            // Of some routes, two limits decide together.
            let with = match *name {
                "bucket" => ", shared",
                "fixed" => ", daily, per-route",
                _ => "",
            };
            format!("  - {{ path: /{name}/**, upstream: UPSTREAM, limits: [{name}{with}] }}\n")
        })
        .collect();
    let recording = record("store: memory", &limits, &routes).await;
    recording.agree(&[
        "bucket", "leaky", "fixed", "log", "counter", "blocking", "costly",
    ]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_refused_is_found_again_to_the_request() {
    let redis = RedisServer::start().await;
    let limits = LIMITS.replace(", MORE", "");
    let routes: String = NAMES
        .iter()
        // Of requests with several costs in one microsecond the order matters, and is not in the log.
        .filter(|name| **name != "costly")
        .map(|name| format!("  - {{ path: /{name}/**, upstream: UPSTREAM, limits: [{name}] }}\n"))
        .collect();
    let routes = format!("{routes}  - {{ path: /**, upstream: UPSTREAM }}");
    let recording = record(&exact(&redis), &limits, &routes).await;
    recording.agree(&["bucket", "fixed", "log", "counter"]);
}
