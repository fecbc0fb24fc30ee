//! Of a crowd that asks about a key with nothing left one asks Redis, and nobody gets another answer for that.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::FixedWindow;
use tidegate_store::{Limit, Outcome, RedisStore, StoreError, Via};
use tidegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::{charge, connect, error_of, limit, quiet_window};

/// Long enough that only an answer ends a wait in these tests.
const TIMEOUT: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(20);

/// A limit of 50, and a store that knows that nothing of it is left.
async fn used_up(server: &RedisServer, timeout: Duration) -> (Arc<RedisStore>, Arc<Limit>) {
    let store = Arc::new(connect(&server.url(), timeout).await);
    let fifty = limit("fifty", FixedWindow::new(50, quiet_window()).unwrap());
    let decision = store.decide(&[charge(&fifty, 1, 50)]).await;
    assert_eq!(decision.outcome, Outcome::Admitted);
    (store, Arc::new(fifty))
}

async fn crowd(store: &Arc<RedisStore>, limit: &Arc<Limit>) -> Vec<(Outcome, Via)> {
    let mut crowd = JoinSet::new();
    for _ in 0..100 {
        let (store, limit) = (store.clone(), limit.clone());
        crowd.spawn(async move {
            let decision = store.decide(&[charge(&limit, 1, 1)]).await;
            (decision.outcome, decision.via)
        });
    }
    crowd.join_all().await
}

#[tokio::test]
async fn one_asks_and_the_others_hear_what_it_was_told() {
    let server = RedisServer::start().await;
    let (store, fifty) = used_up(&server, TIMEOUT).await;
    let decided = crowd(&store, &fifty).await;
    let refused = |by: Via| {
        let answer = (Outcome::Refused, by);
        decided.iter().filter(|one| **one == answer).count()
    };
    assert_eq!(refused(Via::Store), 1);
    assert_eq!(refused(Via::Remembered), 99);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_there_is_something_again_all_of_it_is_had() {
    let server = RedisServer::start().await;
    let (store, fifty) = used_up(&server, TIMEOUT).await;
    let key = charge(&fifty, 1, 1).redis_key("tidegate");
    server.command(&["DEL", &key]).await;
    let decided = crowd(&store, &fifty).await;
    let admitted = (Outcome::Admitted, Via::Store);
    assert_eq!(decided.iter().filter(|one| **one == admitted).count(), 50);
    assert_eq!(
        decided
            .iter()
            .filter(|one| one.0 == Outcome::Refused)
            .count(),
        50
    );
}

#[tokio::test]
async fn whoever_leaves_gives_its_turn_to_the_next() {
    let server = RedisServer::start().await;
    let (store, fifty) = used_up(&server, TIMEOUT).await;
    server.pause().await;
    let ask = || {
        let (store, fifty) = (store.clone(), fifty.clone());
        tokio::spawn(async move { store.decide(&[charge(&fifty, 1, 1)]).await })
    };
    let (asks, waits) = (ask(), ask());
    // This test has one thread: each of them runs until it has to wait.
    tokio::task::yield_now().await;
    asks.abort();
    assert!(asks.await.unwrap_err().is_cancelled());
    server.resume();
    let decision = tokio::time::timeout(SOON, waits).await;
    let decision = decision.expect("it waits for one that has left").unwrap();
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Refused, Via::Store)
    );
}

#[tokio::test]
async fn whoever_asks_in_vain_holds_back_nobody() {
    let server = RedisServer::start().await;
    let (store, fifty) = used_up(&server, Duration::from_secs(1)).await;
    server.pause().await;
    let ask = || async { store.decide(&[charge(&fifty, 1, 1)]).await };
    let both = async { tokio::join!(biased; ask(), ask()) };
    let both = tokio::time::timeout(SOON, both).await;
    let (asked, waited) = both.expect("it waits for one that is not answered");
    for decision in [asked, waited] {
        assert_eq!(error_of(&decision), Some(StoreError::Timeout));
        assert_eq!(decision.via, Via::Fallback);
    }
}
