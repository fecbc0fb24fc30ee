//! Costs that are known after the decision: the whole cost is charged, also beyond the capacity, wherever the limit is kept.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Quota, Rate, TokenBucket};
use tidegate_store::{Decision, Limit, Mode, OnFailure, Outcome, Store, Verdicts};
use tidegate_testkit::RedisServer;

use crate::support::{
    MS, SECOND, charge, connect, every_algorithm, memory_store, now, quiet_window, redis_store,
    wait_for,
};

/// How long a reservation lasts that nobody settles.
const LEASE: u64 = 10 * SECOND;

/// A quota of every algorithm that reserves.
fn reservable(most: u64, window: u64) -> [Quota; 5] {
    let [bucket, _, fixed, log, counter, calendar, _] = every_algorithm(most, window);
    [bucket, fixed, log, counter, calendar]
}

/// Runs `case` where reservations are kept: in memory, in Redis, in a gateway (`mode: local`), and in one whose Redis
/// is down.
async fn everywhere(case: impl AsyncFn(&Store, &str, Mode)) {
    case(&memory_store(), "memory", Mode::Exact).await;
    let server = RedisServer::start().await;
    case(&redis_store(&server).await, "redis", Mode::Exact).await;
    let url = server.url();
    drop(server);
    let alone = Store::Redis(Arc::new(connect(&url, Duration::from_millis(25)).await));
    case(&alone, "local", Mode::Local).await;
    case(&alone, "outage", Mode::Exact).await;
}

fn reserving(name: &str, quota: impl Into<Quota>, mode: Mode) -> Arc<Limit> {
    let limit = Limit::new(name, quota, OnFailure::Local).in_mode(mode);
    Arc::new(limit.reserving(LEASE))
}

async fn decide(store: &Store, limit: &Limit, cost: u64) -> Decision {
    store.decide(&[charge(limit, 1, cost)]).await
}

/// One request that reserves `cost` and then turns out to cost `told`.
async fn spend(store: &Store, limit: &Arc<Limit>, cost: u64, told: u64) {
    let decision = decide(store, limit, cost).await;
    assert_eq!(decision.outcome, Outcome::Admitted, "{limit:?}");
    let charged = [(limit, charge(limit, 1, cost).key, cost)];
    let mut held = store.holds(charged.into_iter(), &decision).unwrap();
    held.settle(|_, _| told);
    drop(held);
    store.let_go().await;
}

fn remaining(verdicts: &Verdicts) -> u64 {
    verdicts[0].unwrap().remaining
}

/// What a limit of ten times the size has left says how much was charged.
#[tokio::test]
async fn a_cost_beyond_what_is_left_is_charged_whole() {
    everywhere(async |store, place, mode| {
        let window = quiet_window();
        let sizes = reservable(100, window)
            .into_iter()
            .zip(reservable(3_000, window));
        for (small, large) in sizes {
            let what = format!("{} in {place}", small.algorithm());
            let name = format!("it-{place}");
            let limits = [small, large].map(|quota| reserving(&name, quota, mode));
            let [small, large] = limits;
            spend(store, &small, 5, 1_000).await;
            let decision = decide(store, &small, 1).await;
            assert_eq!(decision.outcome, Outcome::Refused, "{what}");
            assert_eq!(remaining(&decision.verdicts), 0, "{what}");
            let decision = decide(store, &large, 1).await;
            assert_eq!(decision.outcome, Outcome::Admitted, "{what}");
            assert_eq!(remaining(&decision.verdicts), 1_999, "{what}");
        }
    })
    .await;
}

/// A bucket of 100 that owes 1,000 has room for one after 901 have been paid off.
#[tokio::test]
async fn a_bucket_that_owes_says_when_it_has_room() {
    everywhere(async |store, place, mode| {
        let rate = Rate {
            count: 1,
            per: 1_000 * SECOND,
        };
        let limit = reserving(
            &format!("owes-{place}"),
            TokenBucket::new(100, rate).unwrap(),
            mode,
        );
        spend(store, &limit, 5, 1_000).await;
        for (cost, units) in [(1, 901), (100, 1_000)] {
            let verdict = decide(store, &limit, cost).await.verdicts[0].unwrap();
            let (wait, all) = (units * rate.per, 1_000 * rate.per);
            // Time goes on while the test runs.
            let slack = 900 * SECOND;
            assert!(
                (wait - slack..=wait).contains(&verdict.retry_after),
                "{place}: {verdict:?}"
            );
            assert!(
                (all - slack..=all).contains(&verdict.reset),
                "{place}: {verdict:?}"
            );
            assert!(
                !verdict.allowed && !verdict.settling,
                "{place}: {verdict:?}"
            );
        }
    })
    .await;
}

/// What was reserved would be forgotten after 5 ms, and the reservation after 50; what it has come to counts for 1,000 s.
#[tokio::test]
async fn a_debt_is_kept_until_it_is_paid_off() {
    everywhere(async |store, place, mode| {
        let rate = Rate { count: 1, per: MS };
        let bucket = TokenBucket::new(1_000_000, rate).unwrap();
        let limit = Limit::new(format!("debt-{place}"), bucket, OnFailure::Local);
        let limit = Arc::new(limit.in_mode(mode).reserving(50 * MS));
        for (nth, told) in [(1, 500_000), (2, 1_000_000)] {
            spend(store, &limit, 5, told).await;
            let forgotten = now() + 65 * MS;
            wait_for("the end of what was reserved", async || {
                (now() > forgotten).then_some(())
            })
            .await;
            let refused = decide(store, &limit, 600_000).await;
            assert_eq!(refused.outcome, Outcome::Refused, "{place}, {nth}");
        }
        let refused = decide(store, &limit, 1).await;
        assert_eq!(refused.outcome, Outcome::Refused, "{place}");
    })
    .await;
}

/// However large the number, the arithmetic stays exact, and the limit refuses.
#[tokio::test]
async fn the_largest_cost_that_can_be_told_is_charged() {
    everywhere(async |store, place, mode| {
        for (most, window) in [(1, SECOND), (1_000_000, quiet_window())] {
            for quota in reservable(most, window) {
                if window == SECOND && !matches!(quota, Quota::TokenBucket(_)) {
                    // A window that turns meanwhile is as new.
                    continue;
                }
                let what = format!("{} in {place}", quota.algorithm());
                let limit = reserving(&format!("largest-{most}-{place}"), quota, mode);
                spend(store, &limit, 1, tidegate_core::MAX_EXACT).await;
                let verdict = decide(store, &limit, 1).await.verdicts[0].unwrap();
                assert!(
                    !verdict.allowed && verdict.remaining == 0,
                    "{what}: {verdict:?}"
                );
                assert!(verdict.reset >= verdict.retry_after, "{what}: {verdict:?}");
            }
        }
    })
    .await;
}

/// Beside a debt, what others have reserved is not what stands in the way.
#[tokio::test]
async fn nobody_waits_for_reservations_where_a_debt_refuses() {
    for store in [memory_store(), {
        let server = Box::leak(Box::new(RedisServer::start().await));
        redis_store(server).await
    }] {
        for quota in reservable(100, quiet_window()) {
            let limit = reserving("waits", quota, Mode::Exact);
            // Eleven are under way; one of them is dear.
            let reserved = decide(&store, &limit, 50).await;
            let charged = [(&limit, charge(&limit, 1, 50).key, 50)];
            let held = store.holds(charged.into_iter(), &reserved).unwrap();
            let full = decide(&store, &limit, 60).await.verdicts[0].unwrap();
            assert!(full.settling, "{limit:?}: {full:?}");
            spend_beside(&store, &limit, 5, 300).await;
            let owes = decide(&store, &limit, 1).await.verdicts[0].unwrap();
            assert!(!owes.allowed && !owes.settling, "{limit:?}: {owes:?}");
            drop(held);
            store.let_go().await;
        }
    }
}

/// As [`spend`], while something else is held.
async fn spend_beside(store: &Store, limit: &Arc<Limit>, cost: u64, told: u64) {
    let decision = decide(store, limit, cost).await;
    let charged = [(limit, charge(limit, 1, cost).key, cost)];
    let mut held = store.holds(charged.into_iter(), &decision).unwrap();
    let before = remaining(&decide(store, limit, 99).await.verdicts);
    held.settle(|_, _| told);
    wait_for("the settlement", async || {
        let left = remaining(&decide(store, limit, 99).await.verdicts);
        (left < before).then_some(())
    })
    .await;
}
