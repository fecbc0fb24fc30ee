//! The same traffic gets the same answers from either store.
//!
//! Windows are so long that nothing is freed while a test runs, so what is admitted can be counted on one's fingers.

use std::collections::HashMap;
use std::sync::Arc;

use tidegate_core::{Quota, Verdict};
use tidegate_store::{Charge, Decision, Limit, Outcome, Store, Via};
use tidegate_testkit::RedisServer;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::{
    Random, charge, error_of, every_algorithm, limit, memory_store, quiet_window, redis_store,
};

#[tokio::test]
async fn random_traffic_gets_the_same_answers() {
    let server = RedisServer::start().await;
    let (memory, redis) = (memory_store(), redis_store(&server).await);
    for algorithm in 0..5 {
        let limits = [named("only", algorithm, 20)];
        compare(&memory, &redis, &limits, algorithm as u64).await;
    }
    // Mixed: two to five limits of which the tightest is another each time.
    let mut random = Random(7);
    for round in 0..10 {
        let count = random.between(2, 5) as usize;
        let limits: Vec<Limit> = (0..count)
            .map(|index| {
                let most = random.between(10, 30);
                named(&format!("mixed-{index}"), (round + index) % 5, most)
            })
            .collect();
        compare(&memory, &redis, &limits, 100 + round as u64).await;
    }
}

#[tokio::test]
async fn as_many_as_the_limit_pass_and_the_next_does_not() {
    on_both(async |store| {
        for quota in every_algorithm(10, quiet_window()) {
            let limit = limit("ten", quota);
            for used in 1..=10 {
                let verdict = admitted(store, &[charge(&limit, 1, 1)]).await[0];
                assert_eq!((verdict.remaining, verdict.retry_after), (10 - used, 0));
            }
            for _ in 0..3 {
                let verdict = refused(store, &[charge(&limit, 1, 1)]).await[0];
                assert_eq!(verdict.remaining, 0, "{quota:?}");
                assert!(verdict.retry_after > 0 && verdict.retry_after <= verdict.reset);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_cost_is_charged_whole_or_not_at_all() {
    on_both(async |store| {
        for quota in every_algorithm(10, quiet_window()) {
            let limit = limit("ten", quota);
            assert_eq!(
                admitted(store, &[charge(&limit, 1, 7)]).await[0].remaining,
                3
            );
            assert_eq!(
                refused(store, &[charge(&limit, 1, 4)]).await[0].remaining,
                3
            );
            assert_eq!(
                admitted(store, &[charge(&limit, 1, 3)]).await[0].remaining,
                0
            );
            assert_eq!(
                admitted(store, &[charge(&limit, 2, 10)]).await[0].remaining,
                0
            );
        }
    })
    .await;
}

#[tokio::test]
async fn clients_do_not_affect_each_other() {
    on_both(async |store| {
        for quota in every_algorithm(3, quiet_window()) {
            let limit = limit("three", quota);
            let other = Limit::new("other", quota, limit.on_failure());
            for client in 1..=4 {
                admitted(store, &[charge(&limit, client, 3)]).await;
                refused(store, &[charge(&limit, client, 1)]).await;
                // Nor do limits, nor what else a limit is counted per.
                admitted(store, &[charge(&other, client, 3)]).await;
                let mut apart = charge(&limit, client, 3);
                apart.key.rest = [7; 16];
                admitted(store, &[apart]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_request_is_charged_to_none() {
    on_both(async |store| {
        let window = quiet_window();
        for (client, tight) in (0..).zip(every_algorithm(2, window)) {
            let tight = limit("tight", tight);
            let wide = every_algorithm(100, window).map(|quota| limit("wide", quota));
            let mut charges: Vec<Charge<'_>> =
                wide.iter().map(|limit| charge(limit, client, 3)).collect();
            charges.insert(2, charge(&tight, client, 1));
            for _ in 0..2 {
                admitted(store, &charges).await;
            }
            for _ in 0..5 {
                let verdicts = refused(store, &charges).await;
                let allowed: Vec<bool> = verdicts.iter().map(|verdict| verdict.allowed).collect();
                assert_eq!(allowed, [true, true, false, true, true, true, true, true]);
            }
            charges.remove(2);
            let left = admitted(store, &charges).await;
            assert!(
                left.iter().all(|verdict| verdict.remaining == 91),
                "{left:?}"
            );
            for limit in &wide {
                admitted(store, &[charge(limit, client, 91)]).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_changed_limit_applies_to_clients_that_have_state() {
    on_both(async |store| {
        let window = quiet_window();
        for (client, of) in (0..).zip(0..5) {
            let of_size = |most| limit("sized", every_algorithm(most, window)[of]);
            admitted(store, &[charge(&of_size(10), client, 8)]).await;
            // Smaller than what was used; then larger; then as it was.
            let smaller = of_size(5);
            assert_eq!(
                refused(store, &[charge(&smaller, client, 1)]).await[0].remaining,
                0
            );
            let larger = of_size(20);
            let verdict = admitted(store, &[charge(&larger, client, 2)]).await[0];
            assert_eq!(verdict.remaining, 10, "{larger:?}");
            refused(store, &[charge(&of_size(10), client, 1)]).await;
            // Another window is another key.
            let other = limit("sized", every_algorithm(10, window / 2)[of]);
            let is_bucket = matches!(other.quota(), Quota::TokenBucket(_) | Quota::LeakyBucket(_));
            let decision = store.decide(&[charge(&other, client, 10)]).await;
            assert_eq!(decision.outcome == Outcome::Refused, is_bucket);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_get_exactly_the_limit() {
    on_both(async |store| {
        for (client, quota) in (0..).zip(every_algorithm(100, quiet_window())) {
            let stores = [store.clone(), store.clone()];
            assert_eq!(admitted_at_once(&stores, quota, client).await, 100);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_at_once_get_exactly_the_limit_twenty_times_over() {
    let server = RedisServer::start().await;
    let stores = [redis_store(&server).await, redis_store(&server).await];
    for round in 0..20 {
        let quota = every_algorithm(100, quiet_window())[round % 5];
        assert_eq!(admitted_at_once(&stores, quota, round as u64).await, 100);
    }
}

/// Runs a case on a memory store, and on a real Redis.
pub(crate) async fn on_both(case: impl AsyncFn(&Store)) {
    case(&memory_store()).await;
    let server = RedisServer::start().await;
    case(&redis_store(&server).await).await;
}

/// 64 tasks, half of them on each store, that start together and ask three times: how often they got through.
async fn admitted_at_once(stores: &[Store; 2], quota: Quota, client: u64) -> usize {
    let limit = Arc::new(limit("hundred", quota));
    let start = Arc::new(Barrier::new(64));
    let mut tasks = JoinSet::new();
    for task in 0..64 {
        let (store, limit, start) = (stores[task % 2].clone(), limit.clone(), start.clone());
        tasks.spawn(async move {
            start.wait().await;
            let mut through = 0;
            for _ in 0..3 {
                let decision = store.decide(&[charge(&limit, client, 1)]).await;
                assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
                through += usize::from(decision.outcome == Outcome::Admitted);
            }
            through
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// Plays one script on both stores; both must answer as counting does, and alike.
async fn compare(memory: &Store, redis: &Store, limits: &[Limit], seed: u64) {
    let by_memory = play(memory, limits, seed).await;
    let by_redis = play(redis, limits, seed).await;
    let (first, last) = (by_memory.first().unwrap(), by_redis.last().unwrap());
    // A time that is told can differ by no more than both plays took together; the microsecond is for rounding.
    let elapsed = last.now - first.now + 1;
    for (a, b) in by_memory.iter().zip(&by_redis) {
        assert_eq!((a.outcome, a.via), (b.outcome, b.via));
        for (a, b) in a.verdicts.iter().flatten().zip(b.verdicts.iter().flatten()) {
            assert_eq!((a.allowed, a.remaining), (b.allowed, b.remaining));
            let times = [
                (a.reset, b.reset),
                (a.retry_after, b.retry_after),
                (a.delay, b.delay),
            ];
            for (a, b) in times {
                assert!(a.abs_diff(b) <= elapsed, "{a} and {b} us on {limits:?}");
            }
        }
    }
}

/// 150 requests of five clients with random costs.
async fn play(store: &Store, limits: &[Limit], seed: u64) -> Vec<Decision> {
    let mut random = Random(seed);
    let mut used: HashMap<(usize, u64), u64> = HashMap::new();
    let mut decisions = Vec::new();
    for _ in 0..150 {
        let client = seed << 8 | random.between(1, 5);
        let charges: Vec<Charge<'_>> = limits
            .iter()
            .map(|limit| charge(limit, client, random.pick(&[1, 1, 2, 3])))
            .collect();
        let decision = store.decide(&charges).await;
        let left = |index: usize, used: &HashMap<_, _>| {
            limits[index].quota().capacity() - used.get(&(index, client)).unwrap_or(&0)
        };
        let fits: Vec<bool> = (0..limits.len())
            .map(|index| charges[index].cost <= left(index, &used))
            .collect();
        let admitted = fits.iter().all(|fits| *fits);
        assert_eq!(decision.outcome == Outcome::Admitted, admitted);
        for (index, verdict) in decision.verdicts.iter().flatten().enumerate() {
            if admitted {
                *used.entry((index, client)).or_default() += charges[index].cost;
            }
            let expected = (fits[index], left(index, &used));
            assert_eq!((verdict.allowed, verdict.remaining), expected);
        }
        decisions.push(decision);
    }
    decisions
}

fn named(name: &str, algorithm: usize, most: u64) -> Limit {
    limit(name, every_algorithm(most, quiet_window())[algorithm])
}

pub(crate) async fn admitted(store: &Store, charges: &[Charge<'_>]) -> Vec<Verdict> {
    decided(store, charges, Outcome::Admitted).await
}

pub(crate) async fn refused(store: &Store, charges: &[Charge<'_>]) -> Vec<Verdict> {
    decided(store, charges, Outcome::Refused).await
}

async fn decided(store: &Store, charges: &[Charge<'_>], outcome: Outcome) -> Vec<Verdict> {
    let decision = store.decide(charges).await;
    assert_eq!((decision.outcome, error_of(&decision)), (outcome, None));
    decision.verdicts.into_iter().flatten().collect()
}
