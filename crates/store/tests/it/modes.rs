//! Limits that are kept in the gateway, beside those that Redis decides.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Quota, Rate, TokenBucket};
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Charge, Limit, Mode, OnFailure, Outcome, RedisStore, Store, Via};
use tidegate_testkit::RedisServer;

use crate::support::{charge, connect, every_algorithm, exact_store, limit, options, quiet_window};

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

/// A charge that Redis may still refuse is made when Redis has answered, and newer charges stay.
#[tokio::test]
async fn a_late_answer_of_redis_moves_no_newer_charge() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), Duration::from_secs(30)).await);
    let exact = limit("exact", every_algorithm(9, quiet_window())[2]);
    // Two at once, one more a second: the bucket is full after two.
    let second = Rate {
        count: 1,
        per: 1_000_000,
    };
    let own = limit("own", TokenBucket::new(2, second).unwrap()).in_mode(Mode::Local);
    store.decide(&[charge(&exact, 2, 1)]).await;
    server.pause().await;
    let (late, limits) = (store.clone(), (own.clone(), exact));
    let late = tokio::spawn(async move {
        let both = [charge(&limits.0, 1, 1), charge(&limits.1, 1, 1)];
        late.decide(&both).await.outcome
    });
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let charges = [charge(&own, 1, 1)];
    // The other unit is held.
    assert_eq!(admitted(&store, &charges, 2).await, 1);
    server.resume();
    assert_eq!(late.await.unwrap(), Outcome::Admitted);
    assert_eq!(admitted(&store, &charges, 1).await, 0);
}

/// A gateway's share is smaller than the cost: the cost counts as the share, also beside a limit that Redis decides.
#[tokio::test]
async fn a_cost_above_the_share_counts_as_the_share() {
    let server = RedisServer::start().await;
    let options = RedisOptions {
        gateways: Some(10),
        ..options(&server.url(), Duration::from_millis(25))
    };
    let store = RedisStore::connect(options).await.unwrap();
    server.stop();
    let local = |name: &str, quota: Quota| Limit::new(name, quota, OnFailure::Local);
    let exact = local("exact", every_algorithm(90, quiet_window())[2]);
    let hour = Rate {
        count: 20,
        per: 3_600_000_000,
    };
    let bucket = TokenBucket::new(20, hour).unwrap();
    let leased = local("leased", bucket.into()).in_mode(Mode::Leased);
    let both = [charge(&leased, 1, 5), charge(&exact, 1, 1)];
    let decision = store.decide(&both).await;
    let verdict = decision.verdicts[0].unwrap();
    assert_eq!(
        (decision.outcome, verdict.remaining),
        (Outcome::Admitted, 0)
    );
    let refused = store.decide(&both[..1]).await.verdicts[0].unwrap();
    // The share is two units, of which one comes back every half an hour.
    assert!(refused.retry_after <= 3_600_000_000, "{refused:?}");
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
