//! What decides when Redis does not: each limit's `on_failure`, in time, and Redis again as soon as it is back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Quota;
use tidegate_store::{
    Charge, Decision, Limit, OnFailure, Outcome, RedisStore, Store, StoreError, Via,
};
use tidegate_testkit::{FaultProxy, Port, RedisServer, Silent};

use crate::support::{
    PATIENCE, charge, connect, error_of, every_algorithm, quiet_window, ready, wait_for,
};

/// The longest that a decision of these stores waits.
const TIMEOUT: Duration = Duration::from_millis(150);
/// What a busy machine may add to it.
const SLACK: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_stopped() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    decides_again(&store).await;
    server.stop();
    follows_on_failure(&store).await;
    let error = ready(&store).await.unwrap_err().to_string();
    assert!(
        error.starts_with("there is no connection to Redis: "),
        "{error}"
    );

    server.restart().await;
    decides_again(&store).await;
    assert_eq!(ready(&store).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_frozen() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    decides_again(&store).await;
    server.pause().await;
    let first = decide(&store, &[charge(&closed(), 1, 1)]).await;
    assert_eq!(error_of(&first), Some(StoreError::Timeout));
    follows_on_failure(&store).await;

    server.resume();
    decides_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_never_was() {
    let port = Port::reserve();
    let store = connect(&format!("redis://{}", port.addr()), TIMEOUT).await;
    follows_on_failure(&store).await;

    let silent = Silent::start();
    let store = connect(&format!("redis://{}", silent.addr()), TIMEOUT).await;
    follows_on_failure(&store).await;
    let store = Store::Redis(Arc::new(store));
    assert!(store.ready(std::iter::empty()).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_comes_late() {
    let server = RedisServer::start().await;
    server.stop();
    let store = connect(&server.url(), TIMEOUT).await;
    follows_on_failure(&store).await;
    server.restart().await;
    decides_again(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_counted_in_an_outage_outlives_a_short_return() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let limit = limit("flapping", 3, OnFailure::Local);
    server.stop();
    uses_up(&store, &limit, 3, 1).await;
    server.restart().await;
    decides_again(&store).await;
    assert_eq!(
        decide(&store, &[charge(&limit, 1, 3)]).await.outcome,
        Outcome::Admitted,
        "what was admitted in the outage is not charged later"
    );
    server.stop();
    let decision = decide(&store, &[charge(&limit, 1, 1)]).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Refused, Via::Fallback)
    );
    assert_eq!(store.fallback().usage().keys, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_wait_no_longer_than_one() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), TIMEOUT).await);
    decides_again(&store).await;
    server.pause().await;
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..500 {
        let store = store.clone();
        tasks.spawn(async move { decide(&store, &[charge(&closed(), client, 1)]).await });
    }
    let started = Instant::now();
    for decision in tasks.join_all().await {
        assert_eq!(decision.outcome, Outcome::Unavailable);
    }
    assert!(started.elapsed() < TIMEOUT + SLACK);
    server.resume();
    decides_again(&store).await;
}

/// The other end has lost its power and come back: nothing tells, and there is somebody who asks all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_died_without_a_word_is_left() {
    let server = RedisServer::start().await;
    let proxy = FaultProxy::start(server.addr());
    let store = connect(&format!("redis://{}", proxy.addr()), TIMEOUT).await;
    decides_again(&store).await;
    proxy.strand();
    let first = decide(&store, &[charge(&closed(), 1, 1)]).await;
    assert_eq!(error_of(&first), Some(StoreError::Timeout));
    decides_again(&store).await;
}

/// As above, and so much was asked before that nothing more can be written to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_takes_no_more_is_left() {
    let server = RedisServer::start().await;
    let proxy = FaultProxy::start(server.addr());
    let store = Arc::new(connect(&format!("redis://{}", proxy.addr()), TIMEOUT).await);
    decides_again(&store).await;
    proxy.strand();
    let long = Arc::new(limit(&"x".repeat(64 * 1024), 5, OnFailure::Closed));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..500 {
        let (store, long) = (store.clone(), long.clone());
        tasks.spawn(async move { decide(&store, &[charge(&long, client, 1)]).await });
    }
    for decision in tasks.join_all().await {
        assert_eq!(decision.outcome, Outcome::Unavailable);
    }
    decides_again(&store).await;
}

/// Every policy alone and mixed, on a store whose Redis does not answer.
async fn follows_on_failure(store: &RedisStore) {
    let (closed, open) = (closed(), limit("open", 2, OnFailure::Open));
    let decision = fallen_back(store, &[charge(&closed, 1, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Unavailable);
    assert_eq!(decision.verdicts[..], [None]);
    for _ in 0..4 {
        let decision = fallen_back(store, &[charge(&open, 1, 2)]).await;
        assert_eq!(decision.outcome, Outcome::Admitted);
        assert_eq!(decision.verdicts[..], [None]);
    }
    for (client, quota) in (0..).zip(every_algorithm(5, quiet_window())) {
        let local = Limit::new("local", quota, OnFailure::Local);
        let mixed = limit("mixed", 2, OnFailure::Local);
        // One closed limit closes the request, whatever stands beside it, and nothing is charged.
        let charges = [charge(&local, client, 5), charge(&closed, client, 1)];
        let decision = fallen_back(store, &charges).await;
        assert_eq!(decision.outcome, Outcome::Unavailable);
        assert_eq!(decision.verdicts[..], [None, None]);
        // The local ones decide together, all or none; the open one says nothing, in its place.
        let charges = [
            charge(&open, client, 1),
            charge(&local, client, 1),
            charge(&mixed, client, 1),
        ];
        for left in [1, 0] {
            let decision = fallen_back(store, &charges).await;
            assert_eq!(decision.outcome, Outcome::Admitted);
            let remaining: Vec<Option<u64>> = decision
                .verdicts
                .iter()
                .map(|verdict| verdict.map(|verdict| verdict.remaining))
                .collect();
            assert_eq!(remaining, [None, Some(3 + left), Some(left)]);
        }
        let decision = fallen_back(store, &charges).await;
        assert_eq!(decision.outcome, Outcome::Refused);
        assert_eq!(decision.verdicts[0], None);
        assert!(decision.verdicts[1].is_some_and(|verdict| verdict.allowed));
        assert!(decision.verdicts[2].is_some_and(|verdict| !verdict.allowed));
        // The share of the only gateway, in memory, and not more: three of five are left.
        uses_up(store, &local, 3, client).await;
    }
}

/// Admits so many more, and refuses the next.
async fn uses_up(store: &RedisStore, limit: &Limit, left: u64, client: u64) {
    for left in (0..left).rev() {
        let decision = fallen_back(store, &[charge(limit, client, 1)]).await;
        assert_eq!(decision.outcome, Outcome::Admitted);
        assert!(decision.verdicts[0].is_some_and(|verdict| verdict.remaining == left));
    }
    let decision = fallen_back(store, &[charge(limit, client, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Refused);
}

async fn fallen_back(store: &RedisStore, charges: &[Charge<'_>]) -> Decision {
    let decision = decide(store, charges).await;
    assert_eq!(decision.via, Via::Fallback);
    let error = error_of(&decision);
    assert!(
        matches!(
            error,
            Some(
                StoreError::Timeout
                    | StoreError::Disconnected
                    | StoreError::Unreachable(_)
                    | StoreError::NotAsked
            )
        ),
        "{error:?}"
    );
    decision
}

/// Decides, and in time.
async fn decide(store: &RedisStore, charges: &[Charge<'_>]) -> Decision {
    let asked = Instant::now();
    let decision = store.decide(charges).await;
    assert!(asked.elapsed() < TIMEOUT + SLACK, "{:?}", asked.elapsed());
    let call = decision.call.as_ref().unwrap();
    assert!(call.took < TIMEOUT + SLACK);
    decision
}

/// Waits until Redis decides.
async fn decides_again(store: &RedisStore) {
    let probe = limit("probe", 1_000_000, OnFailure::Open);
    wait_for("a decision by Redis", async || {
        let decision = store.decide(&[charge(&probe, 0, 1)]).await;
        (decision.via == Via::Store).then_some(())
    })
    .await;
    assert!(PATIENCE > TIMEOUT + SLACK);
}

fn closed() -> Limit {
    limit("closed", 5, OnFailure::Closed)
}

fn limit(name: &str, most: u64, on_failure: OnFailure) -> Limit {
    let quota: Quota = every_algorithm(most, quiet_window())[2];
    Limit::new(name, quota, on_failure)
}
