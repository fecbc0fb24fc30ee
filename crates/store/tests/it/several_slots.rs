//! Requests over several slots of a Redis Cluster: their refusals are remembered as those of one slot are.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_core::{Block, FixedWindow, Rate, TokenBucket};
use tidegate_store::{Charge, Decision, Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::RedisCluster;
use tokio::task::JoinSet;

use crate::support::{
    HOUR, MS, charge, connect, connect_exact, decides, error_of, every_algorithm, limit,
    quiet_window, wait_for,
};
use crate::topologies_cluster::calls;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A client, and the one whose key stands for what many share: each at its own node.
const CLIENT: u64 = 1;
const ALL: u64 = 4;

/// Scripts that all nodes have run.
async fn scripts_run(cluster: &RedisCluster) -> u64 {
    let mut sum = 0;
    for node in 0..6 {
        for command in ["eval", "evalsha"] {
            sum += calls(cluster, node, command).await;
        }
    }
    sum
}

/// Charges until the request is refused, which Redis does.
async fn use_up(store: &RedisStore, charges: &[Charge<'_>]) -> Decision {
    loop {
        let decision = store.decide(charges).await;
        assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
        if decision.outcome == Outcome::Refused {
            return decision;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_redis_said_is_remembered_for_each_slot() {
    let cluster = RedisCluster::start().await;
    let store = Arc::new(connect(&cluster.url(), TIMEOUT).await);
    decides(&store, CLIENT).await;
    decides(&store, ALL).await;
    a_flood_costs_a_few_calls_a_second(&cluster, &store).await;
    a_crowd_gets_all_there_is(&store).await;
    an_outage_goes_on_from_it(&cluster, &store).await;
}

/// Scripts that all nodes have run by now. Blocks, so that no task of this thread goes on meanwhile.
fn scripts_run_so_far(cluster: &RedisCluster) -> u64 {
    let of_node = |node: usize| {
        let mut stream = TcpStream::connect(cluster.node(node).addr()).unwrap();
        stream.write_all(b"INFO commandstats\r\nQUIT\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("cmdstat_eval"));
        let calls = lines.map(|line| {
            let (_, rest) = line.split_once("calls=").unwrap();
            rest.split_once(',').unwrap().0.parse::<u64>().unwrap()
        });
        calls.sum::<u64>()
    };
    (0..6).map(of_node).sum()
}

/// The request goes on after one script in each slot, and what it is charged follows behind it.
#[tokio::test]
async fn three_slots_cost_one_round_trip_before_the_upstream() {
    let cluster = RedisCluster::start().await;
    let store = connect(&cluster.url(), TIMEOUT).await;
    for index in 0..7 {
        let quota = every_algorithm(3, quiet_window())[index];
        let limits = ["own", "zone", "all"].map(|name| limit(name, quota));
        let clients = [CLIENT, 2, ALL];
        let pairs = || limits.iter().zip(clients);
        let charges: Vec<Charge<'_>> = pairs().map(|(it, client)| charge(it, client, 1)).collect();
        // The nodes know the scripts afterwards, and nothing is under way.
        let once = store.decide(&charges).await;
        assert_eq!(once.outcome, Outcome::Admitted, "{quota:?}");
        let are_left = async |left: u64| {
            wait_for("the charges", async || {
                let outlooks = store.peek(&charges).await.unwrap();
                let is_left = outlooks.iter().all(|it| it.verdict.remaining == left);
                is_left.then_some(())
            })
            .await;
        };
        are_left(2).await;
        let before = scripts_run_so_far(&cluster);
        let decision = store.decide(&charges).await;
        let asked = scripts_run_so_far(&cluster) - before;
        assert_eq!(
            (decision.outcome, asked),
            (Outcome::Admitted, 3),
            "{quota:?}"
        );
        are_left(1).await;
    }
}

/// A refused request leaves all units in every slot, also in the slot of the limit that refuses, where it held none.
#[tokio::test]
async fn a_refusal_tells_what_is_left_in_every_slot() {
    let cluster = RedisCluster::start().await;
    let store = connect_exact(&cluster.url(), TIMEOUT).await;
    let quota = |most| every_algorithm(most, quiet_window())[2];
    let [burst, daily, all] =
        [("burst", 1), ("daily", 5), ("all", 9)].map(|(name, most)| limit(name, quota(most)));
    let charges = [
        charge(&burst, CLIENT, 1),
        charge(&daily, CLIENT, 1),
        charge(&all, ALL, 1),
    ];
    for allowed in [true, false, false] {
        let decision = store.decide(&charges).await;
        assert_eq!(decision.outcome == Outcome::Admitted, allowed);
        let left = decision.verdicts.iter().flatten();
        assert!(
            left.map(|verdict| verdict.remaining).eq([0, 4, 8]),
            "{decision:?}"
        );
    }
}

/// Whichever of two limits is used up: a call for each slot and second. The check that refuses begins the block.
async fn a_flood_costs_a_few_calls_a_second(cluster: &RedisCluster, store: &Arc<RedisStore>) {
    let quota = |most: u64| FixedWindow::new(most, quiet_window()).unwrap();
    let block = Block {
        span: HOUR,
        extend: false,
    };
    let cases = [
        ("own", limit("a-own", quota(3)), limit("a-all", quota(100))),
        (
            "shared",
            limit("b-own", quota(100)),
            limit("b-all", quota(3)),
        ),
        (
            "blocked",
            limit("c-own", quota(3)).blocking(block),
            limit("c-all", quota(100)),
        ),
    ];
    for (name, own, all) in cases {
        let all = all.shared();
        let charges = [charge(&own, CLIENT, 1), charge(&all, ALL, 1)];
        let told = use_up(store, &charges).await;
        if own.block().is_some() {
            let waits = told.verdicts[0].map(|verdict| verdict.retry_after);
            assert!(waits >= Some(HOUR), "{told:?}");
        }
        let (before, started) = (scripts_run(cluster).await, Instant::now());
        let mut refused = 0_u64;
        while started.elapsed() < Duration::from_millis(1_500) {
            let (one, other) = tokio::join!(store.decide(&charges), store.decide(&charges));
            for decision in [one, other] {
                assert_eq!(decision.outcome, Outcome::Refused);
                let of = |decision: &Decision| {
                    decision
                        .verdicts
                        .iter()
                        .map(|verdict| verdict.map(|told| told.allowed))
                        .collect::<Vec<_>>()
                };
                // Who is refused by memory is told of the limit that refuses, and of no other.
                for (told, known) in of(&decision).iter().zip(of(&told)) {
                    assert!(told.is_none() || *told == known, "{decision:?}");
                }
                refused += 1;
            }
        }
        let seconds = started.elapsed().as_secs() + 1;
        let calls = scripts_run(cluster).await - before;
        assert!(
            // One slot may hold what another refuses, and is told so.
            (1..=5 * seconds).contains(&calls),
            "{name}: {calls} calls for {refused} refusals in {seconds} s"
        );
        assert!(refused > 3 * calls, "{name}: {refused}");
        eprintln!("{name}: {calls} calls for {refused} refusals");
    }
}

/// Many ask at once for the last units, and what is given back is not refused for the sake of a memory. They get never more than
/// either limit, and all of it.
async fn a_crowd_gets_all_there_is(store: &Arc<RedisStore>) {
    for round in 0..5 {
        let own = Arc::new(limit("crowd", every_algorithm(3, quiet_window())[2]));
        let all = Arc::new(limit("crowds", every_algorithm(30, quiet_window())[2]).shared());
        let clients = 1_000 + 100 * round..1_020 + 100 * round;
        let shared = 2_000 + round;
        let mut tasks = JoinSet::new();
        for turn in 0..12 * 20 {
            let (store, own, all) = (store.clone(), own.clone(), all.clone());
            let client = clients.start + turn / 12;
            tasks.spawn(async move {
                let charges = [charge(&own, client, 1), charge(&all, shared, 1)];
                u64::from(store.decide(&charges).await.outcome == Outcome::Admitted)
            });
        }
        let sum = AtomicU64::new(tasks.join_all().await.iter().sum());
        let ask_all = async || {
            for client in clients.clone() {
                let charges = [charge(&own, client, 1), charge(&all, shared, 1)];
                let admitted = store.decide(&charges).await.outcome == Outcome::Admitted;
                sum.fetch_add(u64::from(admitted), Ordering::Relaxed);
            }
            sum.load(Ordering::Relaxed)
        };
        // Whoever lost a unit to another that was given back too late gets it now.
        wait_for("all of it", async || (ask_all().await >= 30).then_some(())).await;
        assert_eq!(ask_all().await, 30);
    }
}

/// A used-up key has nothing left, a key of which a part was used has the rest, and a block stays.
async fn an_outage_goes_on_from_it(cluster: &RedisCluster, store: &RedisStore) {
    let of = |name: &str, quota| Limit::new(name, quota, OnFailure::Local);
    let window = every_algorithm(5, quiet_window())[2];
    let (own, all) = (of("own", window), of("all", window.divided(1)).shared());
    let generous = of("generous", every_algorithm(100, quiet_window())[2]).shared();
    use_up(store, &[charge(&own, CLIENT, 1), charge(&all, ALL, 1)]).await;
    let rate = Rate {
        count: 2,
        per: 500 * MS,
    };
    let block = Block {
        span: HOUR,
        extend: false,
    };
    // Its bucket is full again after half a second.
    let blocked = of("blocked", TokenBucket::new(2, rate).unwrap().into()).blocking(block);
    for _ in 0..30 {
        let decision = store
            .decide(&[charge(&generous, ALL, 1), charge(&own, 77, 1)])
            .await;
        assert_eq!(error_of(&decision), None);
    }
    // A refusal starts the block once the charge has followed behind its request.
    let exceeding = [charge(&blocked, CLIENT, 2), charge(&generous, ALL, 1)];
    wait_for("the block", async || {
        let refused = use_up(store, &exceeding).await.verdicts[0];
        let waits = refused.map(|verdict| verdict.retry_after);
        (waits > Some(HOUR / 2)).then_some(())
    })
    .await;
    let full_again = Instant::now() + Duration::from_millis(500);
    // Requests that were refused hold units until their ends have arrived.
    wait_for("the ends", async || {
        for node in 0..6 {
            let held = cluster.node(node).command(&["KEYS", "*:held"]).await;
            if !held.as_array().is_empty() {
                return None;
            }
        }
        Some(())
    })
    .await;
    let left = store
        .peek(&[charge(&generous, ALL, 1)])
        .await
        .unwrap()
        .remove(0)
        .verdict
        .remaining;
    for node in 0..6 {
        cluster.node(node).stop();
    }
    let without = async |charges: &[Charge<'_>]| {
        wait_for("an outage", async || {
            let decision = store
                .decide(&[charge(&generous, 5_000, 1), charge(&all, 5_001, 1)])
                .await;
            (decision.via == Via::Fallback).then_some(())
        })
        .await;
        let mut admitted = 0;
        loop {
            let decision = store.decide(charges).await;
            if decision.outcome == Outcome::Refused && decision.via == Via::Fallback {
                return admitted;
            }
            admitted += u64::from(decision.outcome == Outcome::Admitted);
        }
    };
    tokio::time::sleep_until(full_again.into()).await;
    assert_eq!(without(&[charge(&own, CLIENT, 1)]).await, 0);
    assert_eq!(without(&[charge(&all, ALL, 1)]).await, 0);
    assert_eq!(without(&[charge(&blocked, CLIENT, 1)]).await, 0);
    assert_eq!(without(&[charge(&generous, ALL, 1)]).await, left);
}
