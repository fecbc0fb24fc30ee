//! Limits that are kept in the gateway, beside those that Redis decides.

use std::time::Duration;

use tidegate_store::{Charge, Limit, Mode, OnFailure, Outcome, RedisStore, Store, Via};
use tidegate_testkit::RedisServer;

use crate::support::{charge, connect, every_algorithm, exact_store, limit, quiet_window};

/// A store whose Redis is not there.
pub(crate) async fn no_redis() -> RedisStore {
    let server = RedisServer::start().await;
    let url = server.url();
    drop(server);
    connect(&url, Duration::from_millis(25)).await
}

/// How many of `requests` are admitted in a row.
async fn admitted(store: &RedisStore, charges: &[Charge<'_>], requests: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..requests {
        admitted += usize::from(store.decide(charges).await.outcome == Outcome::Admitted);
    }
    admitted
}

/// Limits of every algorithm that each gateway counts for itself.
fn local() -> [Limit; 7] {
    every_algorithm(5, quiet_window()).map(|quota| limit("local", quota).in_mode(Mode::Local))
}

#[tokio::test]
async fn a_local_limit_asks_nobody() {
    let store = no_redis().await;
    for limit in &local() {
        for turn in 0..7 {
            let decision = store.decide(&[charge(limit, 1, 1)]).await;
            assert_eq!((decision.via, &decision.call), (Via::Here, &None));
            let verdict = decision.verdicts[0].unwrap();
            assert_eq!(
                (verdict.allowed, verdict.remaining),
                (turn < 5, 4_u64.saturating_sub(turn))
            );
        }
    }
}

#[tokio::test]
async fn each_gateway_has_all_of_a_local_limit() {
    let server = RedisServer::start().await;
    let (one, other) = (exact_store(&server).await, exact_store(&server).await);
    for limit in &local() {
        let charges = [charge(limit, 1, 1)];
        assert_eq!(admitted(&one, &charges, 9).await, 5);
        assert_eq!(admitted(&other, &charges, 9).await, 5);
    }
    let keys = server.command(&["KEYS", "*local*"]).await;
    assert_eq!(keys.as_array().len(), 0, "{keys:?}");
}

/// All or nothing, wherever each is kept.
#[tokio::test]
async fn what_redis_refuses_is_not_charged_here() {
    let server = RedisServer::start().await;
    let store = exact_store(&server).await;
    let exact = limit("exact", every_algorithm(2, quiet_window())[2]);
    for limit in &local() {
        let both = [charge(limit, 1, 1), charge(&exact, 1, 1)];
        store.reset(&both[1..]).await.unwrap();
        assert_eq!(admitted(&store, &both, 9).await, 2);
        let refused = store.decide(&both).await;
        let left = refused.verdicts.iter().flatten();
        let left: Vec<u64> = left.map(|verdict| verdict.remaining).collect();
        assert_eq!((refused.via, left.as_slice()), (Via::Store, &[3, 0][..]));
        assert_eq!(admitted(&store, &both[..1], 9).await, 3);
    }
}

#[tokio::test]
async fn a_refusal_in_the_gateway_needs_no_redis() {
    let store = no_redis().await;
    let exact = Limit::new(
        "exact",
        every_algorithm(9, quiet_window())[2],
        OnFailure::Closed,
    );
    for limit in &local() {
        assert_eq!(admitted(&store, &[charge(limit, 1, 1)], 5).await, 5);
        let both = [charge(limit, 1, 1), charge(&exact, 1, 1)];
        let decision = store.decide(&both).await;
        assert_eq!(
            (decision.outcome, decision.via),
            (Outcome::Refused, Via::Here)
        );
        assert_eq!(decision.verdicts[1], None);
    }
}

/// Each limit follows its own policy: without Redis, what the local one admits is not spent in vain.
#[tokio::test]
async fn a_closed_limit_closes_and_spends_nothing() {
    let store = no_redis().await;
    let exact = Limit::new(
        "exact",
        every_algorithm(9, quiet_window())[2],
        OnFailure::Closed,
    );
    for limit in &local() {
        let both = [charge(limit, 1, 1), charge(&exact, 1, 1)];
        for _ in 0..9 {
            assert_eq!(store.decide(&both).await.outcome, Outcome::Unavailable);
        }
        assert_eq!(admitted(&store, &both[..1], 9).await, 5);
    }
}

#[tokio::test]
async fn in_the_memory_store_a_mode_changes_nothing() {
    let store = Store::Memory(std::sync::Arc::default());
    for mode in Mode::ALL {
        let limit = limit(mode.word(), every_algorithm(5, quiet_window())[2]).in_mode(mode);
        let mut admitted = 0;
        for _ in 0..9 {
            let decision = store.decide(&[charge(&limit, 1, 1)]).await;
            admitted += usize::from(decision.outcome == Outcome::Admitted);
        }
        assert_eq!(admitted, 5);
    }
}
