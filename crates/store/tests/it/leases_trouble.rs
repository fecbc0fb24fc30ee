//! Leased limits when gateways, Redis or its network fail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::FixedWindow;
use tidegate_store::{Limit, Mode, OnFailure, Outcome, Via};
use tidegate_testkit::{RedisCluster, RedisServer};

use crate::leases::{TIMEOUT, admitted, decide, leased, left};
use crate::support::{PATIENCE, charge, connect, quiet_window, wait_for};

/// What a gateway held that is gone is taken to be spent: what it did spend is never admitted again.
#[tokio::test]
async fn what_a_crashed_gateway_held_is_charged() {
    let server = RedisServer::start().await;
    let one = connect(&server.url(), TIMEOUT).await;
    let other = connect(&server.url(), TIMEOUT).await;
    for leased in &leased(100) {
        assert_eq!(admitted(&one, &[charge(leased, 1, 1)], 20).await, 20);
    }
    drop(one);
    let mut sums = [20; 4];
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(6) {
        for (sum, leased) in sums.iter_mut().zip(&leased(100)) {
            *sum += admitted(&other, &[charge(leased, 1, 1)], 10).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for sum in sums {
        assert!((70..=100).contains(&sum), "{sums:?}");
    }
    other.close().await;
    for (sum, leased) in sums.iter().zip(&leased(100)) {
        assert!(left(&other, leased, 1).await <= 100 - sum);
    }
}

/// Redis comes back without its data: it begins anew with what gateways know to have spent since they last told it.
#[tokio::test]
async fn a_redis_that_lost_its_data() {
    let server = RedisServer::start().await;
    let store = connect(&server.url(), TIMEOUT).await;
    for leased in &leased(100) {
        let charges = [charge(leased, 1, 1)];
        assert_eq!(admitted(&store, &charges, 60).await, 60);
        server.command(&["FLUSHALL"]).await;
        let more = admitted(&store, &charges, 150).await;
        assert!((60..=140).contains(&more), "{more}");
        assert_eq!(decide(&store, &charges).await.outcome, Outcome::Refused);
    }
}

/// What is in hand is spent, and then each limit follows its `on_failure`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_slices_are_spent_first() {
    let server = RedisServer::start().await;
    let quota = FixedWindow::new(1_000, quiet_window()).unwrap();
    for (on_failure, outcome) in [
        (OnFailure::Closed, Outcome::Unavailable),
        (OnFailure::Open, Outcome::Admitted),
        (OnFailure::Local, Outcome::Admitted),
    ] {
        let store = connect(&server.url(), Duration::from_millis(300)).await;
        let leased = Limit::new(on_failure_name(on_failure), quota, on_failure);
        let leased = leased.in_mode(Mode::Leased);
        let charges = [charge(&leased, 1, 1)];
        // Until there is something in hand.
        while store.decide(&charges).await.via != Via::Here {}
        server.pause().await;
        let mut here = 0;
        let decision = loop {
            let decision = store.decide(&charges).await;
            if decision.via == Via::Fallback {
                break decision;
            }
            assert_eq!(
                (decision.outcome, decision.via),
                (Outcome::Admitted, Via::Here)
            );
            here += 1;
        };
        assert!(here < 1_000, "{here}");
        assert_eq!(decision.outcome, outcome);
        assert!(decision.call.unwrap().error.is_some());
        let started = Instant::now();
        for _ in 0..20 {
            let decision = store.decide(&charges).await;
            assert_eq!((decision.outcome, decision.via), (outcome, Via::Fallback));
        }
        assert!(started.elapsed() < PATIENCE);
        server.resume();
        wait_for("Redis again", async || {
            (store.decide(&charges).await.via != Via::Fallback).then_some(())
        })
        .await;
    }
}

fn on_failure_name(on_failure: OnFailure) -> &'static str {
    match on_failure {
        OnFailure::Closed => "closed",
        OnFailure::Open => "open",
        OnFailure::Local => "local",
    }
}

/// A request that nobody waits for any more leaves its key usable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_given_up_holds_nobody_up() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url(), TIMEOUT).await);
    for leased in leased(50) {
        let leased = Arc::new(leased);
        decide(&store, &[charge(&leased, 0, 1)]).await;
        server.pause().await;
        let request = {
            let (store, leased) = (store.clone(), leased.clone());
            tokio::spawn(async move { store.decide(&[charge(&leased, 1, 1)]).await })
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        request.abort();
        assert!(request.await.unwrap_err().is_cancelled());
        server.resume();
        // It may have been charged, as with an exact limit.
        let sum = admitted(&store, &[charge(&leased, 1, 1)], 100).await;
        assert!((49..=50).contains(&sum), "{sum}");
    }
}

/// Both keys of a limit are where its client's other keys are, wherever their slot goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster() {
    let cluster = RedisCluster::start().await;
    let store = connect(&cluster.url(), TIMEOUT).await;
    let other = connect(&cluster.url(), TIMEOUT).await;
    crate::support::decides(&store, 0).await;
    let mut sums = [[0; 12]; 4];
    for round in 0..4 {
        for (sums, leased) in sums.iter_mut().zip(&leased(100)) {
            for (client, sum) in (0..).zip(sums) {
                let charges = [charge(leased, client, 1)];
                *sum += admitted(&store, &charges, 20).await;
                *sum += admitted(&other, &charges, 20).await;
            }
        }
        if round == 1 {
            cluster.move_slots(0, 1, RedisCluster::first_slots(0)).await;
        }
    }
    for sum in sums.as_flattened() {
        assert!((70..=100).contains(sum), "{sums:?}");
    }
}

#[tokio::test]
async fn a_user_with_no_more_than_these_commands() {
    let server = RedisServer::start().await;
    crate::topologies::allow(&server, crate::topologies::COMMANDS).await;
    let url = format!("redis://gate:hunter2@{}", server.addr());
    let store = connect(&url, TIMEOUT).await;
    for leased in &leased(100) {
        let charges = [charge(leased, 1, 1)];
        assert_eq!(admitted(&store, &charges, 120).await, 100);
        store.reset(&charges).await.unwrap();
        assert_eq!(admitted(&store, &charges, 120).await, 100);
    }
    store.close().await;
    let refused = server.command(&["ACL", "LOG"]).await;
    assert!(refused.as_array().is_empty(), "{refused:?}");
}
