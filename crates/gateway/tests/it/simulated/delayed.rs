//! Requests over a limit with `action: delay`, which wait in line for their decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Request;
use serde_json::Value;
use tidegate_testkit::{Client, RedisServer, Upstream, body};
use tokio::sync::Barrier;

use super::{Recording, objects, simulate, start};
use crate::access_log_file::lines;
use crate::kit::exact;

/// One at a time, several at once, and one whose window does not end. Whoever is let through, or is not, is so by a margin of more than
/// 200 ms.
const LIMITS: &str = "
  bucket: { token_bucket: { capacity: 2, refill: 2/s }, action: { delay: { max: 1750ms } } }
  window: { sliding_window_log: { limit: 2, window: 1s }, action: { delay: { max: 2500ms } } }
  counter: { sliding_window_counter: { limit: 2, window: 1d }, action: { delay: { max: 1750ms } } }
";

const NAMES: [&str; 3] = ["bucket", "window", "counter"];

/// How many requests a client sends at once.
const BURST: usize = 10;

/// What became of a request: whether it was admitted, and how long it waited, in us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    admitted: bool,
    waited: u64,
}

/// What a request was, by the log.
struct Logged {
    fate: Fate,
    /// Its client and its route: those requests that are counted together.
    group: String,
    /// When it came to the limits, in us.
    came: u64,
}

/// Each client sends a burst to each route, and no client comes twice: what a burst meets does not depend on the one before.
async fn record(store: &str) -> Recording {
    let upstream = Upstream::ok();
    let routes = NAMES.map(|name| {
        let url = upstream.url();
        format!("  - {{ path: /{name}, upstream: {url}, limits: [{name}] }}\n")
    });
    let (gateway, recording) = start(store, LIMITS, &routes.concat()).await;
    let address = gateway.address;
    for round in 0..2 {
        let barrier = Arc::new(Barrier::new(NAMES.len() * BURST));
        let mut senders = Vec::new();
        for name in NAMES {
            for _ in 0..BURST {
                let barrier = barrier.clone();
                senders.push(tokio::spawn(async move {
                    let client = Client::new(address);
                    let request = Request::get(format!("/{name}"));
                    let request = request.header("x-user-id", format!("u{round}"));
                    barrier.wait().await;
                    client.request(request.body(body::empty()).unwrap()).await;
                }));
            }
        }
        for sender in senders {
            sender.await.unwrap();
        }
    }
    gateway.stop().await;
    recording
}

fn logged(recording: &Recording) -> BTreeMap<String, Logged> {
    let lines = objects(&lines(&recording.log));
    let logged = lines.iter().map(|line| {
        let waited = line["waited_us"].as_u64().unwrap_or(0);
        let micros = |name: &str| {
            let time: jiff::Timestamp = line[name].as_str()?.parse().unwrap();
            u64::try_from(time.as_microsecond()).ok()
        };
        // Who would wait in vain is refused by the last decision about the head of the line, whose time is not that of the request.
        let came = match micros("decided_at") {
            Some(decided) => decided,
            None => micros("timestamp").unwrap() - line["total_us"].as_u64().unwrap(),
        };
        let fate = Fate {
            admitted: line["outcome"] == "forwarded",
            waited,
        };
        let logged = Logged {
            fate,
            group: format!("{} {}", line["client"], line["route"]),
            came,
        };
        (line["id"].as_str().unwrap().to_owned(), logged)
    });
    logged.collect()
}

fn replayed(recording: &Recording) -> (BTreeMap<String, Fate>, Value) {
    let file = recording.log.with_extension("decisions");
    let arguments = [
        "-c",
        recording.config.to_str().unwrap(),
        "--json",
        "--strict",
    ];
    let arguments = [&arguments[..], &["--decisions", file.to_str().unwrap()]].concat();
    let report = simulate(&arguments, &[&recording.log]);
    let fates = objects(&lines(&file));
    let fates = fates.iter().map(|line| {
        let fate = Fate {
            admitted: line["decision"] == "admitted",
            waited: line["delayed_us"].as_u64().unwrap(),
        };
        (line["id"].as_str().unwrap().to_owned(), fate)
    });
    (fates.collect(), serde_json::from_str(&report).unwrap())
}

/// Requests that came within this time of each other, in us, may have come in either order. The log has the time of the decision, less the
/// time of waiting; the gateway takes these one after the other. Of who was not decided about it has neither.
const ORDER: u64 = 50_000;

/// A replay may let a request through earlier by this time, in us, since timers are late, and a busy machine later still.
const LATE: u64 = 240_000;

/// Demands that the replay admits, refuses and delays as the gateway did, within these bounds.
fn agree(recording: &Recording) {
    let logged = logged(recording);
    let (replayed, report) = replayed(recording);
    let mut groups: BTreeMap<&str, Vec<(&str, &Logged, Fate)>> = BTreeMap::new();
    for (id, it) in &logged {
        let group = groups.entry(&it.group).or_default();
        group.push((id, it, replayed[id]));
    }
    for (name, group) in &groups {
        for (id, it, fate) in group {
            let is_twin = |other: &Logged, replayed: Fate| {
                other.came.abs_diff(it.came) < ORDER
                    && other.fate.admitted == fate.admitted
                    && replayed.admitted == it.fate.admitted
            };
            let mut others = group.iter();
            assert!(
                it.fate.admitted == fate.admitted
                    || others.any(|(_, other, fate)| is_twin(other, *fate)),
                "{name} {id}: {:?}, replayed {fate:?}",
                it.fate
            );
            if !it.fate.admitted && !fate.admitted {
                let [happened, replayed] = [it.fate.waited, fate.waited];
                assert!(
                    happened.abs_diff(replayed) < LATE,
                    "{name} {id}: {happened} {replayed}"
                );
            }
        }
        // When each place was given away, whoever got it.
        let admitted = |fate: fn(&Logged, Fate) -> Fate| {
            let fates = group
                .iter()
                .map(|(_, it, replayed)| (it.came, fate(it, *replayed)));
            let admitted = fates.filter(|(_, fate)| fate.admitted);
            let mut times: Vec<u64> = admitted.map(|(came, fate)| came + fate.waited).collect();
            times.sort_unstable();
            times
        };
        let happened = admitted(|it, _| it.fate);
        let replayed = admitted(|_, replayed| replayed);
        assert_eq!(happened.len(), replayed.len(), "{name}");
        for (happened, replayed) in happened.iter().zip(&replayed) {
            // Nobody is ever early.
            assert!(
                happened + ORDER >= *replayed,
                "{name}: {happened} {replayed}"
            );
            assert!(
                replayed + LATE >= *happened,
                "{name}: {happened} {replayed}"
            );
        }
    }
    for (limit, waits) in report["configurations"][0]["limits"]
        .as_array()
        .unwrap()
        .iter()
        .zip([true, true, false])
    {
        let [delayed, refused] =
            ["delayed", "refused"].map(|it| limit[it]["high"].as_u64().unwrap());
        assert!(refused > 0 && waits == (delayed > 0), "{limit:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_in_line_waits_again() {
    agree(&record("store: memory").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waited_in_line_for_redis_waits_again() {
    let redis = RedisServer::start().await;
    agree(&record(&exact(&redis)).await);
}
