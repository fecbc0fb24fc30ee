//! Decisions that are asked for at the same moment, in one call, are what they would have been alone.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{Decision, Limit, OnFailure, Outcome, RedisStore, StoreError, Via};
use tidegate_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::support::{charge, connect_exact, error_of, every_algorithm, limit, quiet_window};

const PATIENCE: Duration = Duration::from_secs(5);

/// How often Redis was sent a script, and how often it ran one.
async fn calls(store: &RedisStore) -> u64 {
    store.info().await.unwrap().script_calls.unwrap()
}

/// Asks for all of these at once; what came of each, in their order.
async fn at_once(store: &Arc<RedisStore>, asked: Vec<(Arc<Limit>, u64)>) -> Vec<Decision> {
    let mut tasks = JoinSet::new();
    for (nth, (limit, client)) in asked.into_iter().enumerate() {
        let store = store.clone();
        tasks.spawn(async move { (nth, store.decide(&[charge(&limit, client, 1)]).await) });
    }
    let mut all = tasks.join_all().await;
    all.sort_by_key(|(nth, _)| *nth);
    all.into_iter().map(|(_, decision)| decision).collect()
}

#[tokio::test]
async fn they_cost_one_call_and_each_counts() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect_exact(&server.url(), PATIENCE).await);
    for quota in every_algorithm(7, quiet_window()) {
        let seven = Arc::new(limit("seven", quota));
        // Once for the text, so that what follows is not its loading.
        at_once(&store, vec![(seven.clone(), 1_000); 2]).await;
        let before = calls(&store).await;
        let asked = (0..60).map(|nth| (seven.clone(), nth % 5)).collect();
        let decisions = at_once(&store, asked).await;
        assert_eq!(calls(&store).await - before, 1, "{}", quota.algorithm());
        for client in 0..5 {
            let own = decisions.iter().skip(client).step_by(5);
            let own: Vec<_> = own
                .map(|decision| (decision.outcome, decision.via))
                .collect();
            let expected = |nth| match nth < 7 {
                true => (Outcome::Admitted, Via::Store),
                false => (Outcome::Refused, Via::Store),
            };
            let expected: Vec<_> = (0..12).map(expected).collect();
            assert_eq!(own, expected, "{}, client {client}", quota.algorithm());
        }
        // More than one call may decide are several.
        let asked = (0..200).map(|nth| (seven.clone(), 2_000 + nth)).collect();
        let decisions = at_once(&store, asked).await;
        let admitted = |decision: &&Decision| decision.outcome == Outcome::Admitted;
        assert_eq!(decisions.iter().filter(admitted).count(), 200);
        assert_eq!(calls(&store).await - before, 1 + 4, "{}", quota.algorithm());
    }
}

#[tokio::test]
async fn one_that_fails_concerns_no_other() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect_exact(&server.url(), PATIENCE).await);
    let closed = Arc::new(Limit::new(
        "closed",
        every_algorithm(5, quiet_window())[0],
        OnFailure::Closed,
    ));
    let key = charge(&closed, 3, 1).key("tidegate");
    server.command(&["RPUSH", &key, "1"]).await;
    let asked = (0..10).map(|client| (closed.clone(), client)).collect();
    for (client, decision) in at_once(&store, asked).await.iter().enumerate() {
        let told = (decision.outcome, error_of(decision));
        let expected = match client {
            3 => {
                let code = StoreError::Refused("WRONGTYPE".into());
                (Outcome::Unavailable, Some(code))
            }
            _ => (Outcome::Admitted, None),
        };
        assert_eq!(told, expected, "client {client}");
    }
    // One whose client leaves before the call is made is not charged by it.
    let all = [charge(&closed, 50, 5)];
    tokio::select! {
        biased;
        decision = store.decide(&all) => panic!("{decision:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(store.decide(&all).await.outcome, Outcome::Admitted);
}
