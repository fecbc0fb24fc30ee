//! Clients of several plans on one key, and quotas that a reload changes and changes back: on both stores, and in every mode
//! and outage. What is admitted is what the most generous plan promises; what was used is never forgotten.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{LeakyBucket, Micros, Quota, Rate, TokenBucket};
use tidegate_store::{Limit, Mode, OnFailure, Outcome, RedisStore, Store};
use tidegate_testkit::RedisServer;

use crate::laws::Admissions;
use crate::support::{
    DAY, HOUR, MS, SECOND, charge, connect, connect_exact, lendable, limit, memory_store, now,
    quiet_window, wait_for,
};

const TIMEOUT: Duration = Duration::from_secs(5);

/// Two plans of every algorithm that a law is known of, by the quota of the law: 20 and 200 per window.
fn plans(window: Micros) -> Vec<[Limit; 2]> {
    let [plain, gold] = [20, 200].map(|most| lendable(most, window));
    let pairs = plain.into_iter().zip(gold);
    let limits = pairs.map(|(plain, gold)| {
        let plain = limit("plan", plain);
        let gold = plain.with_quota(gold);
        [plain, gold]
    });
    limits.collect()
}

fn bucket(capacity: u64, count: u64, per: Micros) -> Quota {
    let rate = Rate { count, per };
    TokenBucket::new(capacity, rate).unwrap().into()
}

/// Gold clients that ask all the time, and a plain one between.
async fn mixed(store: &Store, [plain, gold]: &[Limit; 2], client: u64) -> Admissions {
    let mut log = Admissions::default();
    let end = now() + 600 * MS;
    while now() < end {
        for (limit, requests) in [(gold, 10), (plain, 1)] {
            for _ in 0..requests {
                let asked = now();
                let decision = store.decide(&[charge(limit, client, 1)]).await;
                if decision.outcome == Outcome::Admitted {
                    log.add(1, asked, now());
                }
            }
        }
        tokio::task::yield_now().await;
    }
    log
}

async fn is_within_the_law(store: &Store, mode: Mode, client: u64) {
    for [plain, gold] in plans(SECOND) {
        let pair = [plain, gold.clone()].map(|limit| limit.in_mode(mode));
        let log = mixed(store, &pair, client).await;
        let what = (mode, gold.quota().algorithm(), log.len());
        assert_eq!(log.excess(gold.quota()), 0, "{what:?}");
        assert!(log.len() >= 100, "{what:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn together_plans_get_what_the_most_generous_one_promises() {
    let server = RedisServer::start().await;
    let memory = memory_store();
    let redis = Store::Redis(Arc::new(connect(&server.url(), TIMEOUT).await));
    is_within_the_law(&memory, Mode::Exact, 1).await;
    is_within_the_law(&redis, Mode::Exact, 1).await;
    is_within_the_law(&redis, Mode::Leased, 2).await;
    is_within_the_law(&redis, Mode::Local, 3).await;
    // A queue admits as a bucket does.
    let queues = [20, 200].map(|most| {
        let rate = Rate {
            count: most,
            per: SECOND,
        };
        limit("queue", LeakyBucket::new(most, rate).unwrap())
    });
    for store in [&memory, &redis] {
        let log = mixed(store, &queues, 4).await;
        assert_eq!(log.excess(&bucket(200, 200, SECOND)), 0, "{}", log.len());
    }
}

/// How many of these are admitted.
async fn admitted(store: &Store, limit: &Limit, client: u64, requests: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..requests {
        let decision = store.decide(&[charge(limit, client, 1)]).await;
        admitted += u64::from(decision.outcome == Outcome::Admitted);
    }
    admitted
}

/// A large quota, and a small one that is soon paid off.
fn lowered(mode: Mode) -> [Limit; 2] {
    let large = limit("reload", bucket(200, 200, quiet_window())).in_mode(mode);
    let small = large.with_quota(bucket(20, 20, SECOND / 5));
    [large, small]
}

/// Uses 150 of the large quota, and then the small one until it admits again, and says how much is left of the large one.
async fn lowers_and_raises(store: &Store, [large, small]: &[Limit; 2], client: u64) -> u64 {
    assert_eq!(admitted(store, large, client, 150).await, 150);
    wait_for("the small quota to admit again", async || {
        (admitted(store, small, client, 1).await == 1).then_some(())
    })
    .await;
    admitted(store, large, client, 200).await
}

/// A reload lowers a capacity and another one raises it again, and the small one has been used between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_is_lowered_and_raised_again_forgives_nothing() {
    let server = RedisServer::start().await;
    let redis = Store::Redis(Arc::new(connect_exact(&server.url(), TIMEOUT).await));
    for (client, (store, mode)) in (1..).zip([
        (&memory_store(), Mode::Exact),
        (&redis, Mode::Exact),
        (&redis, Mode::Leased),
        (&redis, Mode::Local),
    ]) {
        let left = lowers_and_raises(store, &lowered(mode), client).await;
        assert_eq!(left, 49, "{mode:?}, client {client}");
    }
}

/// The same in an outage, which goes on from what Redis said of each plan last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_forgives_nothing_either() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), Duration::from_millis(150)).await);
    let [large, small] = lowered(Mode::Exact).map(|limit| {
        let quota = *limit.quota();
        Limit::new("reload", quota, OnFailure::Local)
    });
    let store = Store::Redis(store);
    wait_for("a decision by Redis", async || {
        let decision = store.decide(&[charge(&large, 2, 1)]).await;
        (decision.via == tidegate_store::Via::Store).then_some(())
    })
    .await;
    assert_eq!(admitted(&store, &large, 1, 150).await, 150);
    // Redis refuses the small plan, unless this machine is slow, and so it is known to have used all.
    admitted(&store, &small, 1, 1).await;
    server.stop();
    let left = {
        let used = admitted(&store, &large, 1, 1).await;
        wait_for("the small quota to admit again", async || {
            (admitted(&store, &small, 1, 1).await == 1).then_some(())
        })
        .await;
        used + admitted(&store, &large, 1, 200).await
    };
    assert!(left <= 50, "{left}");
}

/// A refusal by a plan whose period is short takes no time to live away that another plan's state needs.
#[tokio::test]
async fn a_refusal_by_a_short_plan_keeps_a_long_plans_state() {
    let server = RedisServer::start().await;
    let store = RedisStore::connect(crate::support::options(&server.url(), TIMEOUT))
        .await
        .unwrap();
    let store = Store::Redis(Arc::new(store));
    for mode in [Mode::Exact, Mode::Leased] {
        let long = limit("long", bucket(1_000, 1_000, 10 * DAY)).in_mode(mode);
        let short = long.with_quota(bucket(20, 20, SECOND));
        let client = 1 + mode as u64;
        assert_eq!(admitted(&store, &long, client, 500).await, 500);
        assert_eq!(admitted(&store, &short, client, 1).await, 0);
        let key = charge(&long, client, 1).redis_key("tidegate");
        let ttl = server.command(&["PTTL", &key]).await.as_int();
        assert!(ttl as u64 > HOUR / MS, "{mode:?}: {ttl} ms");
    }
}
