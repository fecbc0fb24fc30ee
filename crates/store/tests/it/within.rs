//! Callers that wait for less than the store's timeout: they are answered in time, and the circuit breaker judges Redis by the timeout.

use std::time::Duration;

use tidegate_core::FixedWindow;
use tidegate_store::{Charge, Decision, Limit, Mode, OnFailure, Outcome, RedisStore};
use tidegate_store::{StoreError, Via};
use tidegate_testkit::{FaultProxy, RedisServer, Way};
use tokio::time::timeout;

use crate::support::{charge, connect, decides, error_of, quiet_window, wait_for};

/// A timeout of the store that no answer in these tests may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What a busy machine may add to the wait of a caller.
const SOON: Duration = Duration::from_secs(2);
const SHORT: Option<Duration> = Some(Duration::from_millis(8));

fn limit(mode: Mode, units: u64, on_failure: OnFailure) -> Limit {
    let quota = FixedWindow::new(units, quiet_window()).unwrap();
    Limit::new(format!("{mode:?}-{on_failure:?}"), quota, on_failure).in_mode(mode)
}

/// A decision for a caller that waits for a few milliseconds.
async fn soon(store: &RedisStore, charges: &[Charge<'_>]) -> Decision {
    let deciding = store.decide_within(charges, SHORT);
    timeout(SOON, deciding).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_delays_a_caller_by_no_more_than_it_waits() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    decides(&store, 1).await;
    server.pause().await;
    for modes in [
        &[Mode::Exact][..],
        &[Mode::Leased],
        &[Mode::Exact, Mode::Leased, Mode::Local],
        &[Mode::Synced, Mode::Exact],
    ] {
        for (on_failure, outcome) in [
            (OnFailure::Closed, Outcome::Unavailable),
            (OnFailure::Open, Outcome::Admitted),
            (OnFailure::Local, Outcome::Admitted),
        ] {
            let limits: Vec<Limit> = modes
                .iter()
                .map(|mode| limit(*mode, 1_000, on_failure))
                .collect();
            let charges: Vec<Charge<'_>> = limits.iter().map(|it| charge(it, 1, 1)).collect();
            let decision = soon(&store, &charges).await;
            assert_eq!(
                (decision.outcome, decision.via, error_of(&decision)),
                (outcome, Via::Fallback, Some(StoreError::Timeout)),
                "{modes:?} {on_failure:?}"
            );
        }
    }
    server.resume();
}

/// Another request is calling about the same key, and waits for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_does_not_wait_as_long_as_the_request_that_calls() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    for mode in [Mode::Exact, Mode::Leased] {
        let last = limit(mode, 1, OnFailure::Open);
        let charges = [charge(&last, 1, 1)];
        // No units are left of an exact limit, so its requests call one by one. Of a leased limit they always do.
        if mode == Mode::Exact {
            assert_eq!(store.decide(&charges).await.via, Via::Store);
        }
        server.pause().await;
        let short = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let decision = soon(&store, &charges).await;
            assert_eq!(decision.via, Via::Fallback, "{mode:?}");
            server.resume();
        };
        let (longer, ()) = tokio::join!(store.decide(&charges), short);
        assert_eq!(longer.via, Via::Store, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_too_slow_for_some_callers_still_decides_for_others() {
    let server = RedisServer::start().await;
    let proxy = FaultProxy::start(server.addr());
    let store = connect(&format!("redis://{}", proxy.addr()), TIMEOUT).await;
    decides(&store, 1).await;
    proxy.delay(Way::ToServer, Duration::from_millis(200));
    let [exact, leased] =
        [Mode::Exact, Mode::Leased].map(|mode| limit(mode, 1_000, OnFailure::Open));
    for charges in [[charge(&exact, 1, 1)], [charge(&leased, 1, 1)]] {
        for _ in 0..40 {
            let decision = soon(&store, &charges).await;
            assert_eq!(error_of(&decision), Some(StoreError::Timeout));
        }
        let decision = store.decide(&charges).await;
        assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
        // A request that waits for the call of such a caller makes its own call after it.
        let charges = charges.map(|it| charge(it.limit, 2, 1));
        let both = async { tokio::join!(soon(&store, &charges), store.decide(&charges)) };
        let (short, longer) = both.await;
        assert_eq!((short.via, longer.via), (Via::Fallback, Via::Store));
    }
}

/// All callers wait for less than the timeout, and yet they soon wait no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_is_noticed_though_no_caller_waits_for_the_timeout() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), Duration::from_millis(25)).await;
    let open = limit(Mode::Exact, 1_000, OnFailure::Open);
    let charges = [charge(&open, 1, 1)];
    decides(&store, 1).await;
    server.pause().await;
    wait_for("no call", async || {
        let decision = soon(&store, &charges).await;
        (error_of(&decision) == Some(StoreError::NotAsked)).then_some(())
    })
    .await;
    server.resume();
    wait_for("a decision by Redis", async || {
        let decision = soon(&store, &charges).await;
        (decision.via == Via::Store).then_some(())
    })
    .await;
}
