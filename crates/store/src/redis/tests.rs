//! Two gateways that were resumed from one snapshot: both have all that the other has in memory.

use std::time::{Duration, Instant};

use tidegate_core::FixedWindow;
use tidegate_testkit::RedisServer;

use super::*;
use crate::{Key, Limit, Mode, OnFailure, Outcome};

async fn store(server: &RedisServer) -> RedisStore {
    let options = RedisOptions {
        url: server.url(),
        tls: None,
        timeout: Duration::from_secs(5),
        key_prefix: "tidegate".to_owned(),
        gateways: None,
        sync_every: Duration::from_millis(10),
        remember_refusals: true,
    };
    RedisStore::connect(options).await.unwrap()
}

/// A gateway that was cloned after a heartbeat, and its clone.
async fn clones(server: &RedisServer) -> [RedisStore; 2] {
    let (one, other) = (store(server).await, store(server).await);
    assert_eq!(one.heartbeat().await, Ok(1));
    other.gateways.become_clone_of(&one.gateways);
    [one, other]
}

#[tokio::test]
async fn clones_of_one_gateway_go_on_under_ids_of_their_own() {
    let server = RedisServer::start().await;
    let clones = clones(&server).await;
    let ids = || {
        clones
            .each_ref()
            .map(|store| store.gateways.identity().get())
    };
    assert_eq!(ids()[0], ids()[1]);
    for _ in 0..FOREIGN_ROUNDS {
        for store in &clones {
            store.heartbeat().await.unwrap();
        }
    }
    assert_ne!(ids()[0], ids()[1]);
    let settled = ids();
    for _ in 0..10 {
        for store in &clones {
            // Both, and the ID that they had, until it lapses.
            assert!((2..=3).contains(&store.heartbeat().await.unwrap()));
        }
    }
    assert_eq!(ids(), settled);
}

/// In so many heartbeats each notices the other.
const FOREIGN_ROUNDS: usize = 4;

/// What was counted before is counted once, by Redis and by the gateway itself, whichever mode it was counted in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_goes_on_under_another_id_counts_nothing_twice() {
    let server = RedisServer::start().await;
    let store = Arc::new(store(&server).await);
    store.heartbeat().await.unwrap();
    let kept = store.clone();
    let keeping = tokio::spawn(async move { kept.keep_synced().await });
    let quota = FixedWindow::new(1_000, 31 * 86_400_000_000).unwrap();
    let key = Key {
        tag: [1; 16],
        rest: [0; 16],
    };
    let limits = [Mode::Synced, Mode::Leased]
        .map(|mode| Limit::new(mode.word(), quota, OnFailure::Closed).in_mode(mode));
    let mut admitted = [0_u64; 2];
    for round in 0..2 {
        for (limit, admitted) in limits.iter().zip(&mut admitted) {
            let cost = 1;
            let charge = Charge {
                limit,
                key,
                cost,
                origin: None,
            };
            for _ in 0..200 {
                let outcome = store.decide(&[charge]).await.outcome;
                *admitted += u64::from(outcome == Outcome::Admitted);
            }
        }
        if round == 0 {
            // What has been told by now differs from run to run; an exchange may be under way.
            store.leave_twin(1);
        }
    }
    let charges = limits.each_ref().map(|limit| Charge {
        limit,
        key,
        cost: 1,
        origin: None,
    });
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let left = store.peek(&charges).await.unwrap();
        let left = [0, 1].map(|nth: usize| left[nth].verdict.remaining);
        // Of a slice that was out under the old ID nothing is known until it lapses; then all of it counts as spent.
        if left[0] == 1_000 - admitted[0] && left[1] <= 1_000 - admitted[1] {
            break;
        }
        assert!(Instant::now() < deadline, "{left:?} of {admitted:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    keeping.abort();
}
