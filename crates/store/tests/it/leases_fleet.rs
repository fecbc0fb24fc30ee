//! A fleet of gateways on one Redis that share leased limits under more demand than there is. They admit never more than the limit,
//! hardly less, with few calls.
//!
//! The full runs take three minutes:
//!
//!     cargo test -p tidegate-store --test it leases_fleet -- --ignored --nocapture

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::{Limit, Mode, Outcome, RedisStore};
use tidegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::laws::{Admissions, join};
use crate::support::{SECOND, charge, connect, lendable, limit, now};

const TIMEOUT: Duration = Duration::from_secs(5);
const GATEWAYS: usize = 4;

/// A run: so many keys at once, each under this demand.
#[derive(Clone, Copy)]
struct Run {
    quota: Quota,
    window: u64,
    keys: u64,
    // Percent of what the limit admits.
    demand: u64,
    windows: u64,
}

/// What came of it.
struct Result {
    keys: Vec<Admissions>,
    start: u64,
    calls: u64,
}

/// How often Redis has run a script by its name, as only decisions and leases do.
pub(crate) async fn calls(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "commandstats"]).await;
    let info = info.as_str();
    let line = info
        .lines()
        .find(|line| line.starts_with("cmdstat_evalsha:"));
    let calls = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().unwrap())
}

/// One gateway's clients, until a time: each asks as often as it should have by then.
async fn demand(
    store: Arc<RedisStore>,
    limit: Arc<Limit>,
    run: Run,
    gateway: u64,
    end: u64,
) -> Vec<Admissions> {
    let mut keys = vec![Admissions::default(); run.keys as usize];
    let start = now();
    let per_window = run.quota.capacity() * run.demand / 100 / GATEWAYS as u64;
    let mut sent = 0;
    loop {
        let time = now();
        if time >= end {
            return keys;
        }
        let due = (time - start) * per_window / run.window;
        while sent < due {
            for client in 0..run.keys {
                let asked = now();
                let charges = [charge(&limit, client, 1)];
                if store.decide(&charges).await.outcome == Outcome::Admitted {
                    keys[client as usize].add(1, asked, now());
                }
            }
            sent += 1;
        }
        tokio::time::sleep(Duration::from_millis(1 + gateway % 3)).await;
    }
}

/// From shortly before a boundary: all gateways in demand, of which one pauses and one crashes, and comes back.
async fn play(run: Run) -> Result {
    let server = RedisServer::start().await;
    let limit = Arc::new(limit("hot", run.quota).in_mode(Mode::Leased));
    let store = async || Arc::new(connect(&server.url(), TIMEOUT).await);
    // To the boundary, less a fifth.
    let wait = run.window - (now() + run.window / 5) % run.window;
    tokio::time::sleep(Duration::from_micros(wait)).await;
    let start = now();
    let end = start + run.window / 5 + run.windows * run.window;
    let mut tasks = JoinSet::new();
    for gateway in 0..GATEWAYS as u64 - 2 {
        tasks.spawn(demand(store().await, limit.clone(), run, gateway, end));
    }
    // Silent for a while, with a slice that is not used up.
    let pausing = store().await;
    let limits = limit.clone();
    tasks.spawn(async move {
        let pause = start + run.window / 2;
        let mut log = demand(pausing.clone(), limits.clone(), run, 2, pause).await;
        tokio::time::sleep(Duration::from_micros(run.window / 10)).await;
        let more = demand(pausing, limits, run, 2, end).await;
        join(&mut log, more);
        log
    });
    // Gone without a word, and another one in its place.
    let (crashing, next) = (store().await, store().await);
    let limits = limit.clone();
    tasks.spawn(async move {
        let crash = start + run.window * 3 / 4;
        let mut log = demand(crashing, limits.clone(), run, 3, crash).await;
        let more = demand(next, limits, run, 3, end).await;
        join(&mut log, more);
        log
    });
    let before = calls(&server).await;
    let mut keys = vec![Admissions::default(); run.keys as usize];
    for log in tasks.join_all().await {
        join(&mut keys, log);
    }
    let calls = calls(&server).await - before;
    Result { keys, start, calls }
}

impl Result {
    /// The share of what the limit allows that was admitted in each key's time, in percent: at least, and in the mean.
    fn used(&self, run: &Run) -> (f64, f64) {
        let limit = run.quota.capacity() as f64;
        let used = |log: &Admissions| match run.quota {
            // Of whole windows, the least.
            Quota::FixedWindow(_) => {
                let first = self.start - self.start % run.window + run.window;
                let windows = (0..run.windows).map(|nth| first + nth * run.window);
                let counts = windows.map(|start| log.within(start, start + run.window));
                counts.min().unwrap() as f64 / limit
            }
            // It begins full.
            Quota::TokenBucket(_) => log.len() as f64 / (limit * (1.2 + run.windows as f64)),
            _ => {
                let end = self.start + run.windows * run.window;
                log.within(self.start, end) as f64 / (limit * run.windows as f64)
            }
        };
        let used: Vec<f64> = self.keys.iter().map(|log| 100.0 * used(log)).collect();
        let mean = used.iter().sum::<f64>() / used.len() as f64;
        (used.into_iter().fold(f64::INFINITY, f64::min), mean)
    }

    fn check(&self, run: &Run) -> (f64, f64) {
        for log in &self.keys {
            assert_eq!(log.excess(&run.quota), 0, "{:?}", run.quota);
        }
        let admitted: u64 = self.keys.iter().map(Admissions::len).sum();
        let calls = 1_000.0 * self.calls as f64 / admitted as f64;
        let (least, used) = self.used(run);
        eprintln!(
            "{}: {admitted} admitted, {used:.1} % used, {least:.1} % at least, {calls:.1} calls per 1,000",
            run.quota.algorithm()
        );
        (used, calls)
    }
}

/// Windows of seconds, and what a busy machine can keep up with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_never_admits_more_than_the_limit() {
    let window = 2 * SECOND;
    let runs = lendable(2_000, window).map(|quota| {
        let (keys, demand, windows) = (1, 180, 2);
        let run = Run {
            quota,
            window,
            keys,
            demand,
            windows,
        };
        tokio::spawn(async move { (play(run).await, run) })
    });
    for run in runs {
        let (result, run) = run.await.unwrap();
        let (used, calls) = result.check(&run);
        assert!(used > 50.0, "{used}");
        assert!(calls < 100.0, "{calls}");
    }
}

/// 10,000 a minute, 20 keys of each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes three minutes"]
async fn a_fleet_uses_up_a_limit_of_minutes() {
    let window = 60 * SECOND;
    let runs = lendable(10_000, window).map(|quota| {
        // A bucket begins full, so that it takes more to use it up.
        let demand = match quota {
            Quota::TokenBucket(_) => 200,
            Quota::FixedWindow(_) => 150,
            _ => 130,
        };
        let (keys, windows) = (20, 2);
        let run = Run {
            quota,
            window,
            keys,
            demand,
            windows,
        };
        tokio::spawn(async move { (play(run).await, run) })
    });
    let mut shares = Vec::new();
    for run in runs {
        let (result, run) = run.await.unwrap();
        shares.push(result.check(&run));
    }
    for (least, (used, calls)) in [98.0, 98.0, 93.0, 93.0].into_iter().zip(shares) {
        assert!(used >= least && calls < 20.0, "{used}, {calls}");
    }
}
