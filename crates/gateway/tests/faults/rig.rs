//! Gateways with one limit under each policy, a thousand requests a second on them, and what came of it in figures.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use http::Request;
use tidegate_testkit::{Client, Load, RedisServer, Shot, Shots, Upstream, body};

use crate::support::GatewayProcess;

/// Requests a second, over so many connections.
const RATE: u32 = 1_000;
const CONNECTIONS: u32 = 100;

/// Clients who share the load of a lane, in turn.
pub(crate) const CLIENTS: u64 = 50;

/// What must happen, and takes no longer than this on any machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A store whose timeout only a fault exceeds, however busy this machine is. What is found by timing out has shorter ones.
pub(crate) fn store(url: &str) -> String {
    format!("url: \"{url}\", timeout: 250ms")
}

/// A policy, with a limit and a route of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Local,
    Open,
    Closed,
}

pub(crate) const LANES: [Lane; 3] = [Lane::Local, Lane::Open, Lane::Closed];

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        })
    }
}

/// The gateways and what is behind them.
#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) upstream: Upstream,
    pub(crate) gateways: Vec<GatewayProcess>,
    lanes: Vec<Lane>,
}

impl Rig {
    /// Starts so many gateways. `redis` are the settings of the store, `algorithm` those of every limit.
    pub(crate) async fn start(count: usize, redis: &str, lanes: &[Lane], algorithm: &str) -> Self {
        let upstream = Upstream::ok();
        let mut yaml = format!(
            "
store: {{ redis: {{ {redis}, gateways: {count} }} }}
secret: the same for all
clients: [{{ user_id: {{ header: X-User-Id }} }}]
trusted_proxies: [127.0.0.0/8]
limits:
"
        );
        for lane in lanes {
            yaml += &format!("  {lane}: {{ {algorithm}, on_failure: {lane} }}\n");
        }
        yaml += "routes:\n";
        let url = upstream.url();
        for lane in lanes {
            yaml += &format!("  - {{ path: /{lane}, upstream: \"{url}\", limits: [{lane}] }}\n");
        }
        let mut gateways = Vec::new();
        for _ in 0..count {
            let log = "level: info, access: false";
            gateways.push(GatewayProcess::start_with("127.0.0.1:0", log, &yaml).await);
        }
        Self {
            upstream,
            gateways,
            lanes: lanes.to_vec(),
        }
    }

    /// Waits until all of them are ready.
    pub(crate) async fn ready(&self) {
        for gateway in &self.gateways {
            crate::support::asking::ready(gateway.admin, 200).await;
        }
    }

    /// Starts the load: the lanes in turn, and in each its clients in turn.
    pub(crate) fn load(&self) -> Load {
        let addresses: Vec<_> = self
            .gateways
            .iter()
            .map(|gateway| gateway.address)
            .collect();
        let lanes = self.lanes.clone();
        Load::start(&addresses, RATE, CONNECTIONS, move |nth| {
            let lane = lanes[nth as usize % lanes.len()];
            let client = nth / lanes.len() as u64 % CLIENTS;
            let request = Request::get(format!("/{lane}?{client}"));
            let request = request.header("x-user-id", client.to_string());
            request.body(body::empty()).unwrap()
        })
    }

    fn lane(&self, shot: &Shot) -> Lane {
        self.lanes[shot.nth as usize % self.lanes.len()]
    }

    /// Those of a lane.
    pub(crate) fn of(&self, lane: Lane, shots: &Shots) -> Shots {
        shots.only(|shot| self.lane(shot) == lane)
    }

    /// Whether Redis decided, as far as the answer shows it. What is let through under `open` tells of no limit, and under `closed`
    /// nothing is let through. Under `local` nobody sees a difference.
    pub(crate) fn by_redis(&self, shot: &Shot) -> Option<bool> {
        match self.lane(shot) {
            Lane::Local => None,
            Lane::Open => Some(shot.limit.is_some()),
            Lane::Closed => Some(shot.status != Ok(503)),
        }
    }

    /// Those that Redis decided, as far as that shows.
    pub(crate) fn decided_by_redis(&self, shots: &Shots) -> Shots {
        shots.only(|shot| self.by_redis(shot) == Some(true))
    }

    /// Those that Redis did not decide, as far as that shows.
    pub(crate) fn decided_without(&self, shots: &Shots) -> Shots {
        shots.only(|shot| self.by_redis(shot) == Some(false))
    }

    /// What reached the upstream, by lane and client.
    pub(crate) fn admitted(&self) -> HashMap<String, u64> {
        let mut counts = HashMap::new();
        for arrival in self.upstream.requests() {
            *counts.entry(arrival.target).or_default() += 1;
        }
        counts
    }

    /// The most that one client of a lane got beyond this.
    pub(crate) fn beyond(&self, lane: Lane, most: u64) -> u64 {
        let prefix = format!("/{lane}?");
        let of_lane = self.admitted().into_iter();
        let counts = of_lane.filter(|(target, _)| target.starts_with(&prefix));
        counts
            .map(|(_, count)| count.saturating_sub(most))
            .max()
            .unwrap()
    }

    /// How high one client's debt ever rose over the capacity of its bucket, by when its requests reached the upstream.
    pub(crate) fn beyond_bucket(&self, lane: Lane, capacity: f64, a_second: f64) -> f64 {
        let prefix = format!("/{lane}?");
        let mut debts: HashMap<String, (Instant, f64)> = HashMap::new();
        let mut worst = 0.0_f64;
        for arrival in self.upstream.requests() {
            if !arrival.target.starts_with(&prefix) {
                continue;
            }
            let (at, debt) = debts.entry(arrival.target).or_insert((arrival.at, 0.0));
            let paid = arrival.at.duration_since(*at).as_secs_f64() * a_second;
            *debt = (*debt - paid).max(0.0) + 1.0;
            *at = arrival.at;
            worst = worst.max(*debt - capacity);
        }
        worst
    }

    /// What a gateway's metric shows.
    pub(crate) async fn metric(&self, gateway: usize, name: &str) -> f64 {
        let admin = self.gateways[gateway].admin;
        let page = Client::fresh(admin).get("/metrics").await;
        let lines = page.text().lines().filter_map(|line| line.rsplit_once(' '));
        let value = lines
            .filter(|(known, _)| *known == name)
            .map(|(_, value)| value.parse::<f64>().unwrap());
        value.sum()
    }

    /// How often the log of the first gateway says that Redis stopped or began to decide.
    pub(crate) fn changes(&self) -> usize {
        let lines = self.gateways[0].process.output();
        let is_change = |line: &&String| {
            let words = [
                "Redis does not answer decisions",
                "Redis does not decide",
                "Redis decides again",
            ];
            words.iter().any(|words| line.contains(words))
        };
        lines.iter().filter(is_change).count()
    }
}

/// A time in which something was broken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) broken: Instant,
    pub(crate) mended: Instant,
}

impl Fault {
    /// From when it was broken until somebody was answered without Redis.
    pub(crate) fn detected(&self, rig: &Rig, shots: &Shots) -> Option<Duration> {
        let alone = rig.decided_without(&shots.only(|shot| shot.due >= self.broken));
        let first = alone.0.iter().map(Shot::answered).min();
        first.map(|first| first - self.broken)
    }

    /// From when it was mended until somebody was answered by Redis.
    pub(crate) fn recovered(&self, rig: &Rig, shots: &Shots) -> Option<Duration> {
        let again = rig.decided_by_redis(&shots.only(|shot| shot.answered() >= self.mended));
        let first = again.0.iter().map(Shot::answered).min();
        first.map(|first| first - self.mended)
    }

    /// Those that were due in the middle of it: a second after it began, and until it ended.
    pub(crate) fn settled(&self, shots: &Shots) -> Shots {
        shots.during(self.broken + Duration::from_secs(1)..self.mended)
    }

    /// How many were decided by Redis in the middle of it, from the first question to the answer.
    pub(crate) fn still_by_redis(&self, rig: &Rig, shots: &Shots) -> usize {
        let settled = self.settled(shots);
        let inside = settled.only(|shot| shot.answered() < self.mended);
        rig.decided_by_redis(&inside).count()
    }

    /// Prints what clients saw of it, and demands that none saw an error but 503 under `closed`.
    pub(crate) fn tell(&self, name: &str, rig: &Rig, shots: &Shots) {
        let before = shots.only(|shot| shot.due < self.broken);
        let during = shots.during(self.broken..self.mended);
        let settled = self.settled(shots);
        let errors = shots.except(&[200, 429, 503]);
        let unavailable = shots.only(|shot| shot.status == Ok(503));
        let first_error = errors.0.first();
        eprintln!(
            "{name}: {} requests, {} errors, {} refused, {} unavailable; answers before: median {:?}, p99 {:?}; while it \
             lasted: p99 {:?}, worst {:?}; a second into it: p99 {:?}, {} by Redis and {} without; first without it \
             after {:?}, first by it again after {:?}",
            shots.count(),
            errors.count(),
            shots.with_status(429),
            unavailable.count(),
            before.median(),
            before.p99(),
            during.p99(),
            during.worst(),
            settled.p99(),
            self.still_by_redis(rig, shots),
            rig.decided_without(&settled).count(),
            self.detected(rig, shots),
            self.recovered(rig, shots),
        );
        assert_eq!(errors.count(), 0, "{first_error:?}");
        for shot in &unavailable.0 {
            assert!(rig.lane(shot) == Lane::Closed && shot.has_retry_after);
        }
    }

    /// Demands that Redis decided again soon.
    pub(crate) fn recovers_within(&self, rig: &Rig, shots: &Shots, most: Duration) {
        for lane in rig.lanes.iter().filter(|lane| **lane != Lane::Local) {
            let took = self.recovered(rig, &rig.of(*lane, shots));
            assert!(took.is_some_and(|took| took < most), "{lane}: {took:?}");
        }
    }
}

/// Waits; a test's own phases.
pub(crate) async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// A number of INFO.
pub(crate) async fn info(redis: &RedisServer, section: &str, name: &str) -> u64 {
    let info = redis.command(&["INFO", section]).await;
    let Some((_, rest)) = info.as_str().split_once(name) else {
        return 0;
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().unwrap()
}
