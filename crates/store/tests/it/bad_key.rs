//! A key under which stands what no limiter wrote: only its own client is decided by `on_failure`, however often it asks.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::{Charge, Decision, Limit, Mode, OnFailure, RedisStore, StoreError, Via};
use tidegate_testkit::{RedisCluster, RedisServer};
use tokio::task::JoinSet;

use crate::support::{
    PATIENCE, charge, connect, decides, error_of, every_algorithm, lendable, limit, quiet_window,
    state_key, wait_for,
};
use crate::synced_kit::{Gateway, has_told, leaves, synced};

/// The client whose key is bad. Clients are counted from 1.
const BAD: u64 = 0;
/// As many requests of the bad client at once, and as many of others.
const AT_ONCE: u64 = 20;
const ROUNDS: u64 = 15;

/// What may stand under a key that should be a string of numbers, or a list of stamps.
const VALUES: [&[&str]; 2] = [&["SET", "zzz"], &["HSET", "a", "1"]];

/// The command that puts the value under the key.
fn plant<'a>(key: &'a str, value: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec![value[0], key];
    words.extend(&value[1..]);
    words
}

/// The bad client and others ask at the same moment, again and again; what the others were told.
async fn asked_beside(store: &Arc<RedisStore>, limit: &Arc<Limit>) -> Vec<Decision> {
    let mut others = Vec::new();
    for round in 0..ROUNDS {
        let mut asking = JoinSet::new();
        for nth in 0..AT_ONCE {
            for client in [BAD, 1 + round * AT_ONCE + nth] {
                let (store, limit) = (store.clone(), limit.clone());
                asking.spawn(async move {
                    let decision = store.decide(&[charge(&limit, client, 1)]).await;
                    (client, decision)
                });
            }
        }
        for (client, decision) in asking.join_all().await {
            if client == BAD {
                assert_eq!(decision.via, Via::Fallback);
                let told = error_of(&decision);
                assert!(matches!(told, Some(StoreError::Refused(_))), "{told:?}");
            } else {
                others.push(decision);
            }
        }
    }
    others
}

fn all_decided_by_redis(others: &[Decision]) {
    assert_eq!(others.len() as u64, ROUNDS * AT_ONCE);
    let fell_back: Vec<_> = others
        .iter()
        .filter(|decision| decision.via == Via::Fallback)
        .map(error_of)
        .collect();
    assert!(fell_back.is_empty(), "{fell_back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_client_alone_follows_on_failure() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), PATIENCE).await);
    for quota in every_algorithm(5, quiet_window()) {
        let own = Arc::new(limit("own", quota));
        let key = state_key(&charge(&own, BAD, 1));
        for value in VALUES {
            server.command(&["DEL", &key]).await;
            assert!(!server.command(&plant(&key, value)).await.is_error());
            all_decided_by_redis(&asked_beside(&store, &own).await);
            let clients: Vec<u64> = (1..=ROUNDS * AT_ONCE).collect();
            let charges: Vec<Charge<'_>> = clients
                .iter()
                .map(|client| charge(&own, *client, 1))
                .collect();
            store.reset(&charges).await.unwrap();
        }
    }
}

/// Who shares a limit with the bad client goes on being told by Redis, and is not asked about more often.
#[tokio::test]
async fn a_refusal_that_all_share_is_remembered_beside_it() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), PATIENCE).await;
    let quota = every_algorithm(5, quiet_window())[0];
    let shared = Limit::new("shared", quota, OnFailure::Closed).shared();
    let own = Limit::new("own", quota, OnFailure::Closed);
    let everyone = charge(&shared, 1_000, 5);
    store.decide(&[everyone]).await;
    let refused = store.decide(&[charge(&shared, 1_000, 5)]).await;
    assert_eq!(refused.via, Via::Store);
    let key = state_key(&charge(&own, BAD, 1));
    server.command(&["SET", &key, "zzz"]).await;
    // A smaller cost is not refused from memory, and so is asked about together with the bad key.
    let smaller = store
        .decide(&[charge(&shared, 1_000, 1), charge(&own, BAD, 1)])
        .await;
    assert!(matches!(error_of(&smaller), Some(StoreError::Refused(_))));
    let again = store.decide(&[charge(&shared, 1_000, 5)]).await;
    assert_eq!(again.via, Via::Remembered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_a_cluster_is_not_left_alone_for_it() {
    let cluster = RedisCluster::start().await;
    let store = Arc::new(connect(&cluster.url(), PATIENCE).await);
    let own = Arc::new(limit("own", every_algorithm(5, quiet_window())[0]));
    for client in 1..=ROUNDS * AT_ONCE {
        decides(&store, client).await;
    }
    let key = state_key(&charge(&own, BAD, 1));
    for node in 0..3 {
        // Those that do not have the slot say so.
        cluster.node(node).command(&["SET", &key, "zzz"]).await;
    }
    all_decided_by_redis(&asked_beside(&store, &own).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slices_of_others_are_lent_and_settled_beside_it() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), PATIENCE).await);
    for quota in lendable(5, quiet_window()) {
        let own = Arc::new(limit("own", quota).in_mode(Mode::Leased));
        let key = state_key(&charge(&own, BAD, 1));
        for (key, value) in [
            (key.clone(), VALUES[0]),
            (format!("{key}:slices"), VALUES[1]),
        ] {
            assert!(!server.command(&plant(&key, value)).await.is_error());
            all_decided_by_redis(&asked_beside(&store, &own).await);
            let clients: Vec<u64> = (1..=ROUNDS * AT_ONCE).collect();
            let charges: Vec<Charge<'_>> = clients
                .iter()
                .map(|client| charge(&own, *client, 1))
                .collect();
            store.reset(&charges).await.unwrap();
            server.command(&["DEL", &key]).await;
        }
    }
}

/// The counts of many keys are exchanged in one call.
#[tokio::test]
async fn counts_of_others_are_exchanged_beside_it() {
    let server = RedisServer::start().await;
    for limit in synced(1_000) {
        let gateway = Gateway::start(&server.url(), Duration::from_millis(10)).await;
        let ask = async |client| gateway.decide(&[charge(&limit, client, 1)]).await;
        for (round, value) in (0..).zip(VALUES.into_iter().cycle()).take(6) {
            let (bad, others) = (1_000 * round, 1_000 * round + 1..1_000 * round + 21);
            let key = state_key(&charge(&limit, bad, 1));
            assert!(!server.command(&plant(&key, value)).await.is_error());
            // None of this waits, so all of it is told in one call.
            ask(bad).await;
            for client in others.clone() {
                assert_eq!(ask(client).await.via, Via::Here);
            }
            let told = wait_for("the bad key's own on_failure", async || {
                let decision = ask(bad).await;
                (decision.via == Via::Fallback).then_some(decision)
            })
            .await;
            assert!(matches!(error_of(&told), Some(StoreError::Refused(_))));
            for client in others {
                let decision = ask(client).await;
                assert_eq!(decision.via, Via::Here, "round {round}, client {client}");
                leaves(&gateway, charge(&limit, client, 1), 998).await;
            }
            // It is told once the key is in order.
            server.command(&["DEL", &key]).await;
            has_told(&gateway).await;
            assert_eq!(ask(bad).await.via, Via::Here);
        }
    }
}

/// A reset is what an operator does about such a key.
#[tokio::test]
async fn a_reset_clears_it_in_every_mode() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), PATIENCE).await;
    for quota in lendable(5, quiet_window()) {
        for mode in [Mode::Exact, Mode::Leased] {
            let own = limit("own", quota).in_mode(mode);
            let key = state_key(&charge(&own, BAD, 1));
            assert!(!server.command(&plant(&key, VALUES[0])).await.is_error());
            let bad = store.decide(&[charge(&own, BAD, 1)]).await;
            assert_eq!(bad.via, Via::Fallback);
            store.reset(&[charge(&own, BAD, 1)]).await.unwrap();
            let good = store.decide(&[charge(&own, BAD, 1)]).await;
            assert_eq!(good.via, Via::Store, "{mode:?} {:?}", error_of(&good));
        }
    }
}
