//! Refusals that are given again without asking Redis, and when it is asked after all.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::{Block, FixedWindow, Rate, SlidingWindowLog, TokenBucket};
use tidegate_store::{Limit, OnFailure, Outcome, RedisStore, Store, Via};
use tidegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::{
    HOUR, MS, Random, SECOND, charge, connect, every_algorithm, limit, memory_store, quiet_window,
    wait_for,
};

const TIMEOUT: Duration = Duration::from_secs(5);

fn small() -> Limit {
    limit("small", FixedWindow::new(2, quiet_window()).unwrap())
}

/// How often Redis has run a script.
pub(crate) async fn scripts_run(server: &RedisServer) -> u64 {
    let info = server.command(&["INFO", "commandstats"]).await;
    let info = info.as_str();
    let lines = info.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let calls = lines.filter_map(|line| {
        line.split_once("calls=")?
            .1
            .split_once(',')?
            .0
            .parse::<u64>()
            .ok()
    });
    calls.sum()
}

async fn use_up(store: &RedisStore, limit: &Limit) {
    for expected in [Outcome::Admitted, Outcome::Admitted, Outcome::Refused] {
        let decision = store.decide(&[charge(limit, 1, 1)]).await;
        assert_eq!((decision.outcome, decision.via), (expected, Via::Store));
    }
}

/// One call a second, however many are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_refused_requests_costs_a_call_a_second() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let small = small();
    use_up(&store, &small).await;
    let (before, started) = (scripts_run(&server).await, Instant::now());
    let mut refused = 0;
    while started.elapsed() < Duration::from_millis(2_500) {
        let charges = [charge(&small, 1, 1)];
        let (one, other) = tokio::join!(store.decide(&charges), store.decide(&charges));
        for decision in [one, other] {
            assert_eq!(decision.outcome, Outcome::Refused);
            refused += 1;
        }
    }
    let seconds = started.elapsed().as_secs() + 1;
    let calls = scripts_run(&server).await - before;
    assert!(refused > 1_000, "{refused}");
    assert!(
        (1..=seconds).contains(&calls),
        "{calls} calls for {refused} refusals in {seconds} s"
    );
}

/// It says the same as Redis would: the same reset, and a time to come back that has run on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_is_what_redis_would_say() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let asking = crate::support::exact_store(&server).await;
    let small = small();
    use_up(&store, &small).await;
    for _ in 0..20 {
        let remembered = store.decide(&[charge(&small, 1, 1)]).await;
        let asked = asking.decide(&[charge(&small, 1, 1)]).await;
        assert_eq!((remembered.via, asked.via), (Via::Remembered, Via::Store));
        let (told, known) = (remembered.verdicts[0].unwrap(), asked.verdicts[0].unwrap());
        assert_eq!((told.allowed, told.remaining), (false, 0));
        let ends = |now: u64, wait: u64| now + wait;
        let difference =
            ends(remembered.now, told.retry_after).abs_diff(ends(asked.now, known.retry_after));
        // The time that an answer takes.
        assert!(difference < SECOND, "{difference} us");
    }
    // A request that other limits would let through is refused all the same, and charges them nothing.
    let other = limit("other", FixedWindow::new(9, HOUR).unwrap());
    let decision = store
        .decide(&[charge(&other, 1, 1), charge(&small, 1, 1)])
        .await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Refused, Via::Remembered)
    );
    let decision = asking.decide(&[charge(&other, 1, 1)]).await;
    assert_eq!(decision.verdicts[0].unwrap().remaining, 8);
}

/// A refused request is let through as soon as its time has come, and by nobody's memory later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_refusal_ends_when_it_says() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let rate = Rate {
        count: 5,
        per: SECOND,
    };
    let bucket = limit("bucket", TokenBucket::new(1, rate).unwrap());
    let mut admitted = Vec::new();
    while admitted.len() < 6 {
        let decision = store.decide(&[charge(&bucket, 1, 1)]).await;
        match decision.outcome {
            Outcome::Admitted => admitted.push(decision.now),
            _ => {
                let wait = decision.verdicts[0].unwrap().retry_after;
                tokio::time::sleep(Duration::from_micros(wait)).await;
            }
        }
    }
    for pair in admitted.windows(2) {
        assert!(pair[1] - pair[0] >= SECOND / 5);
    }
    assert_ne!(admitted.len(), 0);
}

/// A reset is seen within a second, since so long a refusal is remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_is_seen_within_a_second() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let small = Limit::new(
        "small",
        FixedWindow::new(2, quiet_window()).unwrap(),
        OnFailure::Closed,
    );
    use_up(&store, &small).await;
    let remembered = store.decide(&[charge(&small, 1, 1)]).await;
    assert_eq!(remembered.via, Via::Remembered);
    let key = charge(&small, 1, 1).redis_key("tidegate");
    server.command(&["DEL", &key]).await;
    let admitted = wait_for("an admission", async || {
        let decision = store.decide(&[charge(&small, 1, 1)]).await;
        (decision.outcome == Outcome::Admitted).then_some(decision)
    });
    assert_eq!(admitted.await.verdicts[0].unwrap().remaining, 1);
}

/// Without Redis a refusal is over after a second, for all requests and not for a few: `on_failure` decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_refusal_outlives_redis_by_more_than_a_second() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let quota = FixedWindow::new(2, quiet_window()).unwrap();
    let open = Limit::new("small", quota, OnFailure::Open);
    use_up(&store, &open).await;
    server.stop();
    let stopped = Instant::now();
    wait_for("an outage", async || {
        let decision = store.decide(&[charge(&open, 1, 1)]).await;
        (decision.via == Via::Fallback).then_some(())
    })
    .await;
    let remembered = stopped.elapsed();
    assert!(remembered < Duration::from_secs(3), "{remembered:?}");
    for _ in 0..1_000 {
        let decision = store.decide(&[charge(&open, 1, 1)]).await;
        assert_eq!(
            (decision.outcome, decision.via),
            (Outcome::Admitted, Via::Fallback)
        );
    }
}

/// Exceeds this limit with the smallest cost, then with a larger one, and asks again when its time to come back has come.
async fn come_back(store: Store, limit: Limit, mut random: Random) -> Option<Via> {
    let ask = async |cost| store.decide(&[charge(&limit, 1, cost)]).await;
    for _ in 0..5 {
        ask(1).await;
        tokio::time::sleep(Duration::from_millis(random.between(5, 25))).await;
    }
    let mut cost = random.between(2, 4);
    let mut refused = ask(cost).await;
    if random.between(0, 1) == 0 {
        // The answer about the larger cost serves smaller ones as well.
        cost = random.between(2, cost);
        refused = ask(cost).await;
    }
    let verdict = refused.verdicts[0].filter(|verdict| !verdict.allowed)?;
    tokio::time::sleep(Duration::from_micros(verdict.retry_after + MS)).await;
    let again = ask(cost).await;
    // On a busy machine a call of Redis may time out. Then this gateway's share decides, and has other charges.
    if [refused.via, again.via].contains(&Via::Fallback) {
        return None;
    }
    let told = (refused.via, verdict.retry_after, cost, limit.block());
    let quota = limit.quota();
    assert_eq!(again.outcome, Outcome::Admitted, "{quota:?}: {told:?}");
    Some(refused.via)
}

/// The refusal of a small cost is remembered; larger costs that follow may have longer to wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_cost_fits_when_its_own_wait_is_over() {
    const REMEMBERED: usize = 100;
    let server = RedisServer::start().await;
    let redis = Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await));
    let mut remembered = 0;
    // On a busy machine many a refusal is over before the larger cost is asked for: more rounds make up for it.
    for round in 0..30 {
        let mut tasks = JoinSet::new();
        for seed in round * 20..(round + 1) * 20 {
            for (nth, quota) in every_algorithm(4, 600 * MS)[..6].iter().enumerate() {
                let span = 150 * MS;
                let extend = seed % 3 == 1;
                let mut limit = limit(&format!("larger-{nth}-{seed}"), *quota);
                if seed % 3 > 0 {
                    limit = limit.blocking(Block { span, extend });
                }
                for store in [memory_store(), redis.clone()] {
                    tasks.spawn(come_back(store, limit.clone(), Random(seed)));
                }
            }
        }
        let came_back = tasks.join_all().await;
        let by_memory = |via: &&Option<Via>| **via == Some(Via::Remembered);
        remembered += came_back.iter().filter(by_memory).count();
        if remembered > REMEMBERED && round >= 2 {
            return;
        }
    }
    panic!("{remembered} of 3,600 refusals were remembered");
}

/// One call a second serves a larger cost as well, also in a log. A mixture of costs takes a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_larger_costs_costs_a_call_a_second() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let log = limit("log", SlidingWindowLog::new(9, quiet_window()).unwrap());
    for _ in 0..10 {
        store.decide(&[charge(&log, 1, 1)]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Costs of one size, and of all sizes beside the smallest one.
    for (costs, each_second) in [(vec![3], 1), (vec![1, 3, 2, 5, 8], 3)] {
        let (before, started) = (scripts_run(&server).await, Instant::now());
        let mut refused = 0;
        while started.elapsed() < Duration::from_millis(2_500) {
            let charges = costs.iter().map(|cost| [charge(&log, 1, *cost)]);
            for charges in charges {
                let (one, other) = tokio::join!(store.decide(&charges), store.decide(&charges));
                for decision in [one, other] {
                    assert_eq!(decision.outcome, Outcome::Refused);
                    refused += 1;
                }
            }
        }
        let seconds = started.elapsed().as_secs() + 1;
        let calls = scripts_run(&server).await - before;
        assert!(refused > 1_000, "{refused}");
        assert!(
            (1..=each_second * seconds).contains(&calls),
            "{calls} calls for {refused} refusals in {seconds} s, costs {costs:?}"
        );
    }
}
