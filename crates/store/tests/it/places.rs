//! Places of `concurrency` survive what happens to stores and gateways: whoever runs is counted, whatever was lost.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Concurrency, Quota};
use tidegate_store::redis::RedisOptions;
use tidegate_store::{
    Charge, Holds, Limit, OnFailure, Outcome, RENEW_EVERY, RedisStore, Store, Via,
};
use tidegate_testkit::{FaultProxy, RedisServer, Way};

use crate::support::{
    HOUR, MS, PATIENCE, SECOND, charge, connect_exact, limit, memory_store, now, options,
    redis_store, wait_for,
};

/// Short enough to wait for, and long enough for a busy machine.
const LEASE: u64 = 2 * SECOND;

fn places(most: u64, lease: u64) -> Arc<Limit> {
    Arc::new(limit("places", Concurrency::new(most, lease).unwrap()))
}

async fn outcome(store: &Store, limit: &Limit) -> Outcome {
    store.decide(&[charge(limit, 1, 1)]).await.outcome
}

/// What a request holds that is admitted; none if it is not.
async fn begin(store: &Store, limit: &Arc<Limit>) -> Option<Holds> {
    let Charge { key, cost, .. } = charge(limit, 1, 1);
    let decision = store.decide(&[charge(limit, 1, 1)]).await;
    let charged = std::iter::once((limit, key, cost));
    store.holds(charged, &decision)
}

async fn begin_both(store: &Store, limit: &Arc<Limit>) -> [Holds; 2] {
    [
        begin(store, limit).await.unwrap(),
        begin(store, limit).await.unwrap(),
    ]
}

/// Renews as a gateway does, until it is dropped.
struct Gateway(tokio::task::JoinHandle<()>);

impl Gateway {
    fn runs(store: &Store) -> Self {
        let store = store.clone();
        Self(tokio::spawn(async move {
            loop {
                store.renew().await;
                tokio::time::sleep(RENEW_EVERY / 10).await;
            }
        }))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn key(limit: &Limit) -> String {
    format!("{}:held", charge(limit, 1, 1).redis_key("tidegate"))
}

/// When the places under a key lapse that are alive, by Redis.
async fn lapses(server: &RedisServer, limit: &Limit) -> Vec<u64> {
    let after = format!("({}", now());
    let words = ["ZRANGEBYSCORE", &key(limit), &after, "+inf", "WITHSCORES"];
    let found = server.command(&words).await;
    let scores = found.as_array().iter().skip(1).step_by(2);
    scores
        .map(|score| score.as_str().parse().unwrap())
        .collect()
}

/// Waits until the places have been renewed, or taken again, and nothing but these is counted.
async fn are_counted(server: &RedisServer, limit: &Limit, places: usize) {
    are_counted_since(now(), server, limit, places).await;
}

/// As [`are_counted`], for places that may have been taken again since `from`.
async fn are_counted_since(from: u64, server: &RedisServer, limit: &Limit, places: usize) {
    let lease = limit.lease().unwrap();
    wait_for("places of a fresh lease", async || {
        let lapses = lapses(server, limit).await;
        let fresh = lapses.iter().filter(|lapse| **lapse >= from + lease);
        (fresh.count() == places && lapses.len() == places).then_some(())
    })
    .await;
}

async fn have_lapsed(server: &RedisServer, limit: &Limit) {
    wait_for("all places have lapsed", async || {
        lapses(server, limit).await.is_empty().then_some(())
    })
    .await;
}

/// Waits until no request is admitted for want of room, and none is before.
async fn is_full(store: &Store, limit: &Limit) {
    wait_for("a refusal by the store", async || {
        let decision = store.decide(&[charge(limit, 1, 1)]).await;
        assert_ne!(decision.outcome, Outcome::Admitted);
        (decision.outcome == Outcome::Refused && decision.via == Via::Store).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_renewal_whose_answer_is_lost_loses_no_place() {
    let server = RedisServer::start().await;
    let proxy = FaultProxy::start(server.addr());
    let url = format!("redis://{}", proxy.addr());
    let store = Store::Redis(Arc::new(connect_exact(&url, PATIENCE).await));
    let two = places(2, LEASE);
    let _both = begin_both(&store, &two).await;
    let _runs = Gateway::runs(&store);
    // For the script's text.
    are_counted(&server, &two, 2).await;
    proxy.stall(Way::ToClient, true);
    let taken = lapses(&server, &two).await;
    wait_for("renewals that run", async || {
        let renewed = lapses(&server, &two).await;
        let is_renewed = |lapse: &&u64| !taken.contains(lapse);
        (renewed.iter().filter(is_renewed).count() == 2).then_some(())
    })
    .await;
    proxy.cut();
    proxy.heal();
    // Every later renewal finds them.
    for _ in 0..3 {
        are_counted(&server, &two, 2).await;
    }
    let other = redis_store(&server).await;
    assert_eq!(outcome(&other, &two).await, Outcome::Refused);
}

#[tokio::test]
async fn a_decision_whose_answer_is_lost_leaves_no_place() {
    let server = RedisServer::start().await;
    let proxy = FaultProxy::start(server.addr());
    let url = format!("redis://{}", proxy.addr());
    let store = connect_exact(&url, Duration::from_millis(500)).await;
    let two = places(2, HOUR);
    // For the script's text.
    assert_eq!(
        store.decide(&[charge(&two, 2, 1)]).await.outcome,
        Outcome::Admitted
    );
    proxy.stall(Way::ToClient, true);
    let decision = store.decide(&[charge(&two, 1, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Unavailable);
    proxy.heal();
    wait_for("the place is free", async || {
        lapses(&server, &two).await.is_empty().then_some(())
    })
    .await;
}

/// Nothing is renewed for longer than the lease: the gateway was stopped, or its machine slept.
#[tokio::test]
async fn a_pause_of_the_gateway_loses_no_place() {
    let server = RedisServer::start().await;
    let two = places(2, LEASE / 2);
    let store = redis_store(&server).await;
    let both = begin_both(&store, &two).await;
    have_lapsed(&server, &two).await;
    let runs = Gateway::runs(&store);
    is_full(&store, &two).await;
    are_counted(&server, &two, 2).await;
    drop(runs);
    drop(both);

    let store = memory_store();
    let _both = begin_both(&store, &two).await;
    let lapsed = now() + two.lease().unwrap();
    wait_for("a pause", async || (now() > lapsed).then_some(())).await;
    assert_eq!(outcome(&store, &two).await, Outcome::Refused);
}

/// The clock of the memory store may step as well.
#[tokio::test]
async fn time_that_goes_by_loses_no_place_in_memory() {
    let store = memory_store();
    let two = places(2, SECOND);
    let both = begin_both(&store, &two).await;
    let asked = [charge(&two, 1, 1)];
    for pause in [SECOND, HOUR, 24 * HOUR] {
        let decision = store.memory().decide_at(&asked, now() + pause);
        assert_eq!(decision.outcome, Outcome::Refused, "after {pause} us");
    }
    for back in [SECOND, HOUR] {
        let decision = store.memory().decide_at(&asked, now() - back);
        assert_eq!(decision.outcome, Outcome::Refused, "{back} us before");
    }
    drop(both);
    let later = now() + 25 * HOUR;
    assert_eq!(
        store.memory().decide_at(&asked, later).outcome,
        Outcome::Admitted
    );
}

#[tokio::test]
async fn after_a_reset_running_requests_are_counted() {
    let server = RedisServer::start().await;
    for store in [memory_store(), redis_store(&server).await] {
        let two = places(2, HOUR);
        let mut both = begin_both(&store, &two).await.map(Some);
        let asked = [charge(&two, 1, 1)];
        for _ in 0..2 {
            store.reset(&asked).await.unwrap();
            assert_eq!(outcome(&store, &two).await, Outcome::Refused);
        }
        drop(both[0].take());
        wait_for("one is free", async || {
            let left = store.peek(&asked).await.unwrap()[0].verdict.remaining;
            (left == 1).then_some(())
        })
        .await;
    }
}

/// What another gateway has reset is renewed as ever.
#[tokio::test]
async fn after_a_reset_requests_of_other_gateways_are_counted_soon() {
    let server = RedisServer::start().await;
    let two = places(2, LEASE);
    let (one, other) = (redis_store(&server).await, redis_store(&server).await);
    let _both = begin_both(&one, &two).await;
    let _runs = Gateway::runs(&one);
    other.reset(&[charge(&two, 1, 1)]).await.unwrap();
    are_counted(&server, &two, 2).await;
    assert_eq!(outcome(&other, &two).await, Outcome::Refused);
}

/// One gateway was reloaded, and the other not yet.
#[tokio::test]
async fn a_shorter_lease_loses_no_place_of_a_longer_one() {
    let server = RedisServer::start().await;
    let (long, short) = (places(2, HOUR), places(2, SECOND / 2));
    let memory = memory_store();
    let redis = redis_store(&server).await;
    let reloaded = redis_store(&server).await;
    for [store, reloaded] in [[&memory, &memory], [&redis, &reloaded]] {
        let both = begin_both(store, &long).await;
        assert_eq!(outcome(reloaded, &short).await, Outcome::Refused);
        let lapsed = now() + SECOND;
        wait_for("the shorter lease", async || (now() > lapsed).then_some(())).await;
        assert_eq!(outcome(reloaded, &short).await, Outcome::Refused);
        drop(both);
        wait_for("they are free", async || {
            (outcome(reloaded, &short).await == Outcome::Admitted).then_some(())
        })
        .await;
    }
}

/// Redis hangs for longer than the lease, and goes on with its data.
#[tokio::test]
async fn a_redis_that_froze_loses_no_place() {
    for on_failure in [OnFailure::Local, OnFailure::Closed] {
        let server = RedisServer::start().await;
        let timeout = Duration::from_millis(250);
        let store = Store::Redis(Arc::new(connect_exact(&server.url(), timeout).await));
        let quota = Quota::from(Concurrency::new(2, LEASE / 2).unwrap());
        let two = Arc::new(Limit::new("places", quota, on_failure));
        let _runs = Gateway::runs(&store);
        let _both = begin_both(&store, &two).await;
        server.pause().await;
        let lapsed = now() + LEASE;
        wait_for("a freeze of two leases", async || {
            assert_ne!(outcome(&store, &two).await, Outcome::Admitted);
            (now() > lapsed).then_some(())
        })
        .await;
        server.resume();
        is_full(&store, &two).await;
        are_counted(&server, &two, 2).await;
    }
}

#[tokio::test]
async fn a_redis_that_lost_its_data_loses_no_place() {
    let server = RedisServer::start().await;
    let timeout = Duration::from_millis(250);
    let store = Store::Redis(Arc::new(connect_exact(&server.url(), timeout).await));
    let two = places(2, HOUR);
    let _runs = Gateway::runs(&store);
    let _both = begin_both(&store, &two).await;
    let lost = now();
    server.restart().await;
    is_full(&store, &two).await;
    are_counted_since(lost, &server, &two, 2).await;
}

/// In an outage a gateway counts what it runs, whoever admitted it; and Redis counts that too when it is back.
#[tokio::test]
async fn an_outage_adds_to_what_is_running() {
    let server = RedisServer::start().await;
    let timeout = Duration::from_millis(250);
    let store = Store::Redis(Arc::new(connect_exact(&server.url(), timeout).await));
    let quota = Quota::from(Concurrency::new(4, HOUR).unwrap());
    let four = Arc::new(Limit::new("places", quota, OnFailure::Local));
    let mut running = Vec::new();
    for _ in 0..3 {
        running.extend(begin(&store, &four).await);
    }
    assert_eq!(running.len(), 3);
    server.stop();
    let runs = Gateway::runs(&store);
    running.push(begin(&store, &four).await.unwrap());
    assert!(begin(&store, &four).await.is_none(), "four are running");
    // One of Redis's ends, and one that was admitted meanwhile.
    for nth in [0, 2] {
        drop(running.remove(nth));
        running.push(begin(&store, &four).await.unwrap());
        assert!(begin(&store, &four).await.is_none(), "four are running");
    }
    let back = now();
    server.restart().await;
    is_full(&store, &four).await;
    are_counted_since(back, &server, &four, 4).await;
    drop(runs);
    running.truncate(1);
    wait_for("the others are free", async || {
        (lapses(&server, &four).await.len() == 1).then_some(())
    })
    .await;
}

/// A request counts as all that it costs, also where the share is less when Redis goes, and a reload makes it larger later.
#[tokio::test]
async fn a_share_that_grows_counts_all_of_a_running_request() {
    let server = RedisServer::start().await;
    let options = RedisOptions {
        gateways: Some(3),
        remember_refusals: false,
        ..options(&server.url(), Duration::from_millis(250))
    };
    let store = RedisStore::connect(options).await.unwrap();
    let store = Store::Redis(Arc::new(store));
    let limited = |most: u64| {
        let quota = Quota::from(Concurrency::new(most, HOUR).unwrap());
        Arc::new(Limit::new("places", quota, OnFailure::Local))
    };
    let [before, after] = [3, 6].map(limited);
    let two = charge(&before, 1, 2);
    let decision = store.decide(&[two]).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Admitted, Via::Store)
    );
    let holds = store.holds(std::iter::once((&before, two.key, two.cost)), &decision);
    server.stop();
    assert!(begin(&store, &before).await.is_none(), "the share is 1");
    assert!(
        begin(&store, &after).await.is_none(),
        "the share is 2, and 2 are taken"
    );
    drop(holds);
    assert!(begin(&store, &after).await.is_some(), "none is taken");
}

/// Places that seem to last for too long were taken before Redis's clock stepped back, or a replica behind took over.
#[tokio::test]
async fn a_step_back_of_the_clock_loses_no_place() {
    let server = RedisServer::start().await;
    let store = redis_store(&server).await;
    let two = places(2, LEASE);
    let _both = begin_both(&store, &two).await;
    let found = server.command(&["ZRANGE", &key(&two), "0", "-1"]).await;
    let members = found.as_array().iter();
    for member in members.filter(|member| member.as_str() != "held") {
        let ahead = (now() + HOUR).to_string();
        server
            .command(&["ZADD", &key(&two), &ahead, member.as_str()])
            .await;
    }
    assert_eq!(outcome(&store, &two).await, Outcome::Refused);
    let most = now() + LEASE + 100 * MS;
    assert!(
        lapses(&server, &two)
            .await
            .iter()
            .all(|lapse| *lapse <= most)
    );
    let _runs = Gateway::runs(&store);
    for _ in 0..2 {
        are_counted(&server, &two, 2).await;
        assert_eq!(outcome(&store, &two).await, Outcome::Refused);
    }
}
