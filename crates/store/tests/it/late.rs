//! A Redis that is hung or slow: nothing is charged that something else has decided meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::FixedWindow;
use tidegate_store::{Limit, OnFailure, RedisStore, StoreError, Via};
use tidegate_testkit::{FaultProxy, RedisServer, Way};

use crate::support::{charge, connect, error_of, quiet_window, wait_for};

const TIMEOUT: Duration = Duration::from_millis(150);
const CLIENTS: u64 = 40;

fn large(on_failure: OnFailure) -> Limit {
    Limit::new(
        "large",
        FixedWindow::new(1_000_000, quiet_window()).unwrap(),
        on_failure,
    )
}

async fn decided_by_redis(store: &RedisStore, limit: &Limit) {
    wait_for("a decision by Redis", async || {
        let decision = store.decide(&[charge(limit, 0, 1)]).await;
        (decision.via == Via::Store).then_some(())
    })
    .await;
}

/// What Redis has counted for a client.
async fn counted(server: &RedisServer, limit: &Limit, client: u64) -> Option<String> {
    let key = charge(limit, client, 1).redis_key("tidegate");
    let value = server.command(&["GET", &key]).await;
    (!value.is_nil()).then(|| value.as_str().to_owned())
}

/// Commands that a frozen Redis had received already are run when it goes on; they find themselves too late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_redis_finds_when_it_goes_on_charges_nothing() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), TIMEOUT).await);
    let limit = Arc::new(large(OnFailure::Open));
    decided_by_redis(&store, &limit).await;
    server.pause().await;
    let asked = (1..=CLIENTS).map(|client| {
        let (store, limit) = (store.clone(), limit.clone());
        tokio::spawn(async move {
            let decision = store.decide(&[charge(&limit, client, 1)]).await;
            error_of(&decision)
        })
    });
    let mut sent = 0;
    for error in asked.collect::<Vec<_>>() {
        sent += u64::from(error.await.unwrap() == Some(StoreError::Timeout));
    }
    assert!(sent >= 1, "none was on its way");
    // What is known of Redis's clock is late by the time that a call was on its way.
    tokio::time::sleep(TIMEOUT).await;
    server.resume();
    decided_by_redis(&store, &limit).await;
    for client in 1..=CLIENTS {
        assert_eq!(
            counted(&server, &limit, client).await,
            None,
            "client {client}"
        );
    }
}

/// After a few that were in vain nobody waits any more, but for one now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_redis_is_hardly_asked() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    let limit = large(OnFailure::Local);
    decided_by_redis(&store, &limit).await;
    server.pause().await;
    let (mut waited, mut at_once) = (0, 0);
    let started = Instant::now();
    while at_once < 2_000 {
        let decision = store.decide(&[charge(&limit, 1, 1)]).await;
        assert_eq!(decision.via, Via::Fallback);
        match error_of(&decision) {
            Some(StoreError::NotAsked | StoreError::Disconnected | StoreError::Unreachable(_)) => {
                at_once += 1
            }
            _ => waited += 1,
        }
    }
    // Those that open it, and one for every pause of 200 ms since.
    let most = 5 + started.elapsed().as_millis() / 200 + 1;
    assert!(waited <= most, "{waited} waited, where {most} may");
    server.resume();
    decided_by_redis(&store, &limit).await;
}

/// A network that is slower than the timeout: what arrives late is not charged either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_arrives_late_charges_nothing() {
    let server = RedisServer::start().await;
    let proxy = FaultProxy::start(server.addr());
    let store = connect(&format!("redis://{}", proxy.addr()), TIMEOUT).await;
    let limit = large(OnFailure::Open);
    decided_by_redis(&store, &limit).await;
    proxy.delay(Way::ToServer, 2 * TIMEOUT);
    for client in 1..=4 {
        let decision = store.decide(&[charge(&limit, client, 1)]).await;
        assert_eq!(decision.via, Via::Fallback);
    }
    // The last one is on its way still, and would be in time now.
    tokio::time::sleep(TIMEOUT).await;
    proxy.delay(Way::ToServer, Duration::ZERO);
    decided_by_redis(&store, &limit).await;
    for client in 1..=4 {
        assert_eq!(
            counted(&server, &limit, client).await,
            None,
            "client {client}"
        );
    }
}
