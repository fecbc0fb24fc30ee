//! Four gateways on one limit: how far beyond it they go, window by window, and what that costs Redis.
//!
//! The bound follows from what a gateway does: it admits what fits beside what it knows of the others. So together they are beyond
//! the limit by no more than what the others have admitted that it does not know. This is what each of them admits in two
//! exchanges. How long an exchange took is measured, so nothing here depends on how busy the machine is.

use std::time::{Duration, Instant};

use tidegate_core::Quota;
use tidegate_store::{Limit, Mode, OnFailure};
use tidegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::{Random, charge, limit, now, quiet_window};
use crate::synced_kit::{Gateway, has_told, quotas, synced};

const GATEWAYS: usize = 4;

/// What one gateway has admitted, and when; and when it was seen to have exchanged.
#[derive(Default)]
struct Log {
    admitted: Vec<(Instant, u64)>,
    exchanged: Vec<Instant>,
}

impl Log {
    /// The longest time between two exchanges.
    fn longest(&self) -> Duration {
        let pairs = self.exchanged.windows(2);
        pairs.map(|pair| pair[1] - pair[0]).max().unwrap()
    }

    /// The most that was admitted in such a time.
    fn most_in(&self, span: Duration) -> u64 {
        let from = |first: usize| {
            let end = self.admitted[first].0 + span;
            let within = self.admitted[first..].iter();
            within.take_while(move |(at, _)| *at <= end)
        };
        let sums = (0..self.admitted.len()).map(|first| from(first).map(|(_, cost)| cost).sum());
        sums.max().unwrap_or(0)
    }

    fn total(&self) -> u64 {
        self.admitted.iter().map(|(_, cost)| cost).sum()
    }
}

/// Requests of random costs and pauses until the limit has been used up for a while.
async fn hammer(gateway: Gateway, limit: Limit, seed: u64) -> (Gateway, Log) {
    let mut random = Random(seed);
    let mut log = Log::default();
    let (mut exchanges, mut refused) = (0, 0);
    log.exchanged.push(Instant::now());
    // Then it has heard of all that was admitted anywhere.
    while refused < 20 {
        let cost = random.between(1, 3);
        let is_admitted = gateway.admits(&[charge(&limit, 1, cost)]).await;
        let at = Instant::now();
        if is_admitted {
            log.admitted.push((at, cost));
        }
        let seen = gateway.synced_usage().exchanges;
        if seen > exchanges {
            exchanges = seen;
            log.exchanged.push(at);
            refused = if is_admitted { 0 } else { refused + 1 };
        }
        if random.between(0, 3) == 0 {
            tokio::time::sleep(Duration::from_millis(random.between(0, 3))).await;
        }
    }
    log.exchanged.push(Instant::now());
    (gateway, log)
}

/// One run; how far the limit was exceeded, and the bound.
async fn overshoot(server: &RedisServer, quota: Quota, every: Duration, run: u64) -> (u64, u64) {
    let limit = limit(&format!("run-{run}"), quota).in_mode(Mode::Synced);
    let mut hammering = JoinSet::new();
    for gateway in 0..GATEWAYS as u64 {
        let store = Gateway::start(&server.url(), every).await;
        hammering.spawn(hammer(store, limit.clone(), run * 10 + gateway));
    }
    let (gateways, logs): (Vec<_>, Vec<_>) = hammering.join_all().await.into_iter().unzip();
    let total: u64 = logs.iter().map(Log::total).sum();
    let longest = logs.iter().map(Log::longest).max().unwrap();
    let mut most: Vec<u64> = logs.iter().map(|log| log.most_in(2 * longest)).collect();
    most.sort_unstable();
    let bound: u64 = most[1..].iter().sum();
    // Costs of up to three may leave two unused.
    assert!(total + 2 >= quota.capacity(), "{total}");
    let beyond = total.saturating_sub(quota.capacity());
    assert!(beyond <= bound, "{beyond} beyond, and the bound is {bound}");
    for gateway in &gateways {
        has_told(gateway).await;
        let seen = &gateway.synced_usage().overshoots[0];
        assert!(seen.max <= beyond, "{seen:?}");
    }
    // All counts are in Redis, and whoever was last to hear of them has measured what was beyond the limit.
    let measured = gateways
        .iter()
        .map(|it| it.synced_usage().overshoots[0].max);
    assert_eq!(measured.max(), Some(beyond));
    eprintln!(
        "{}, every {every:?}: {total} of {} admitted, {beyond} beyond; bound {bound}, exchanges {longest:?} apart",
        quota.algorithm(),
        quota.capacity(),
    );
    (beyond, bound)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overshoot_is_within_its_bound() {
    let server = RedisServer::start().await;
    for (run, quota) in (0..).zip(quotas(500, quiet_window())) {
        for every in [1, 20] {
            overshoot(
                &server,
                quota,
                Duration::from_millis(every),
                100 * every + run,
            )
            .await;
        }
    }
}

/// `cargo test -p tidegate-store --test it -- --ignored --nocapture twenty_runs`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute"]
async fn the_overshoot_is_within_its_bound_in_twenty_runs() {
    let server = RedisServer::start().await;
    let mut worst = 0.0_f64;
    for run in 0..20 {
        for (kind, quota) in (0..).zip(quotas(10_000, quiet_window())) {
            let every = Duration::from_millis([1, 10, 100, 100][run as usize % 4]);
            let (beyond, bound) = overshoot(&server, quota, every, 2 * run + kind).await;
            worst = worst.max(beyond as f64 / bound as f64);
        }
    }
    eprintln!("the worst was {:.0} % of the bound", 100.0 * worst);
}

/// Windows turn while requests are decided and exchanges are under way; Redis's totals are those of each window.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_turn_at_any_moment() {
    const WINDOW: u64 = 150_000;
    let server = RedisServer::start().await;
    for quota in quotas(1_000_000, WINDOW) {
        let limit = Limit::new("turning", quota, OnFailure::Closed).in_mode(Mode::Synced);
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            gateways.push(Gateway::start(&server.url(), Duration::from_millis(1)).await);
        }
        let key = charge(&limit, 1, 1).redis_key("tidegate");
        let (mut redis, mut agreed, mut turns) = (server.connect().await, 0, 0);
        let (mut window, mut counted, mut before) = (0, 0, 0);
        let deadline = Instant::now() + Duration::from_secs(30);
        while agreed < 5 || turns < 5 {
            assert!(Instant::now() < deadline, "{agreed} of {turns}");
            let start = now() / WINDOW * WINDOW;
            if start != window {
                turns += 1;
                before = if start == window + WINDOW { counted } else { 0 };
                (window, counted) = (start, 0);
            }
            // In the last part nobody counts, so that the window's total can be told.
            if now() < start + WINDOW / 2 {
                for gateway in &gateways {
                    assert!(gateway.admits(&[charge(&limit, 1, 1)]).await);
                }
                if now() >= start + WINDOW {
                    // Nobody knows in which window that was.
                    (window, counted) = (0, 0);
                    continue;
                }
                counted += gateways.len() as u64;
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            for gateway in &gateways {
                has_told(gateway).await;
            }
            let state = redis.command(&["GET", &key]).await.unwrap();
            if now() >= start + WINDOW || counted == 0 || before == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let expected = match quota {
                Quota::FixedWindow(_) => format!("{start} {counted}"),
                _ => format!("{start} {counted} {before}"),
            };
            assert_eq!(state.as_str(), expected);
            agreed += 1;
        }
    }
}

/// How many calls of the script Redis has seen.
async fn calls(server: &RedisServer) -> u64 {
    let stats = server.command(&["INFO", "commandstats"]).await;
    let lines = stats.as_str().lines();
    let scripts = lines.filter_map(|line| line.strip_prefix("cmdstat_eval"));
    let calls = scripts.filter_map(|line| line.split("calls=").nth(1)?.split(',').next());
    calls.map(|calls| calls.parse::<u64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_grow_with_keys_and_time_and_not_with_requests() {
    let server = RedisServer::start().await;
    let [limit, _] = synced(1_000_000);
    for (every, keys) in [(10, 1), (50, 1), (50, 320)] {
        for pause in [5, 0] {
            let gateway = Gateway::start(&server.url(), Duration::from_millis(every)).await;
            let (before, start) = (calls(&server).await, Instant::now());
            let mut requests = 0_u64;
            while start.elapsed() < Duration::from_millis(300) || requests < 2 * keys {
                for client in 0..keys {
                    assert!(gateway.admits(&[charge(&limit, client, 1)]).await);
                    requests += 1;
                }
                tokio::time::sleep(Duration::from_millis(pause)).await;
                tokio::task::yield_now().await;
            }
            let took = start.elapsed();
            let calls = calls(&server).await - before;
            // One in each turn for every 32 keys, but each key's first, and a script that is not known yet.
            let turns = took.as_millis() as u64 / every + 2;
            assert!(calls <= turns * keys.div_ceil(32) + keys + 2, "{calls}");
            eprintln!(
                "{keys} keys every {every} ms: {requests} requests, {:.0} a second; {:.0} calls a second",
                requests as f64 / took.as_secs_f64(),
                calls as f64 / took.as_secs_f64(),
            );
        }
    }
}
