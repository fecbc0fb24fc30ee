//! A Redis Cluster: its nodes share nothing here, so what befalls one concerns nobody whose keys are elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate_store::{Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::{RedisCluster, Reply};
use tokio::task::JoinSet;

use crate::support::{
    charge, connect, connect_exact, counts_exactly, decides, error_of, every_algorithm, limit,
    quiet_window, ready, wait_for,
};
use crate::synced_cluster::{counts_meet, counts_meet_while_slots_move};
use crate::topologies::{COMMANDS, allow};
use crate::topologies_slots::several_slots_are_one_decision;

const TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_spread_and_decided_where_they_are() {
    let cluster = RedisCluster::start().await;
    for node in 0..6 {
        let more = "+cluster|info +cluster|slots +asking";
        allow(cluster.node(node), &format!("{COMMANDS} {more}")).await;
    }
    let url = cluster.url().replace("://", "://gate:hunter2@");
    let store = connect_exact(&url, TIMEOUT).await;
    decides(&store, 0).await;
    counts_exactly(&store, 1..40).await;
    let mut keys = 0;
    for node in 0..3 {
        let found = cluster.node(node).command(&["KEYS", "*"]).await;
        keys += found.as_array().len();
        assert!(found.as_array().len() > 5 * 5, "node {node} has {found:?}");
        for key in found.as_array() {
            let ttl = cluster
                .node(node)
                .command(&["PTTL", key.as_str()])
                .await
                .as_int();
            assert!(ttl > 0, "{key:?}: {ttl}");
        }
    }
    assert_eq!(keys, 39 * 5 + 1);
    assert_eq!(store.shared_secret("one").await, Ok("one".into()));
    assert_eq!(store.shared_secret("two").await, Ok("one".into()));
    assert_eq!(store.heartbeat().await, Ok(1));
    assert_eq!(ready(&store).await, Ok(()));
    every_primary_tells_how_it_is(&cluster, &store).await;

    // Any one node is enough to find the others, a replica too.
    let url = format!("redis-cluster://gate:hunter2@{}", cluster.node(5).addr());
    let store = connect_exact(&url, TIMEOUT).await;
    decides(&store, 0).await;
    counts_exactly(&store, 100..120).await;

    scripts_lost_at_one_node(&cluster, &store).await;
    an_open_slot_is_asked_for_at_its_new_node(&cluster, &store).await;
    several_slots_are_one_decision(&cluster).await;
    Box::pin(counts_meet(&url)).await;
    for node in 0..3 {
        let refused = cluster.node(node).command(&["ACL", "LOG"]).await;
        assert!(refused.as_array().is_empty(), "{refused:?}");
    }
    slots_that_move_under_load(&cluster).await;
    Box::pin(counts_meet_while_slots_move(&cluster)).await;
    gateways_are_counted_where_their_slot_goes(&cluster, &store).await;
}

async fn gateways_are_counted_where_their_slot_goes(cluster: &RedisCluster, store: &RedisStore) {
    let ask = ["CLUSTER", "KEYSLOT", "tidegate:gateways"];
    let slot = cluster.node(0).command(&ask).await.as_int();
    let slot = u16::try_from(slot).unwrap();
    let from = (0..3).find(|node| RedisCluster::first_slots(*node).contains(&slot));
    let from = from.unwrap();
    let to = (from + 1) % 3;
    let before = calls(cluster, to, "eval").await;
    cluster.move_slots(from, to, slot..slot + 1).await;
    assert!(store.heartbeat().await.is_ok());
    assert!(calls(cluster, to, "eval").await > before);
}

async fn every_primary_tells_how_it_is(cluster: &RedisCluster, store: &RedisStore) {
    let nodes = store.info().await.unwrap();
    let mut told: Vec<_> = nodes.iter().filter_map(|it| it.node.clone()).collect();
    let mut primaries: Vec<_> = (0..3)
        .map(|node| cluster.node(node).addr().to_string())
        .collect();
    told.sort();
    primaries.sort();
    assert_eq!(told, primaries);
    for node in nodes {
        assert!(node.info.script_calls > Some(0), "{node:?}");
    }
}

async fn scripts_lost_at_one_node(cluster: &RedisCluster, store: &RedisStore) {
    for node in 0..3 {
        cluster.node(node).command(&["SCRIPT", "FLUSH"]).await;
        let evals = calls(cluster, node, "eval").await;
        let first = 200 + 20 * node as u64;
        counts_exactly(store, first..first + 20).await;
        assert_eq!(
            calls(cluster, node, "eval").await,
            evals + 1,
            "loaded once, there"
        );
    }
}

/// Its keys stay where they are until they are moved; new ones begin at the new node; nobody is counted twice.
async fn an_open_slot_is_asked_for_at_its_new_node(cluster: &RedisCluster, store: &RedisStore) {
    let five = limit("asked", every_algorithm(5, quiet_window())[0]);
    let old = (1_000..).find(|client| slot_of(*client) < RedisCluster::first_slots(1).start);
    let old = old.unwrap();
    let slot = slot_of(old);
    for _ in 0..3 {
        let decision = store.decide(&[charge(&five, old, 1)]).await;
        assert_eq!(
            (decision.outcome, decision.via),
            (Outcome::Admitted, Via::Store)
        );
    }
    cluster.open_slot(&slot.to_string(), 0, 1).await;
    // A key that is not there yet begins where the slot goes; one that is there is counted there.
    let begun = limit("begun", every_algorithm(5, quiet_window())[2]);
    cluster.node(1).command(&["SCRIPT", "FLUSH"]).await;
    for turn in 0..6 {
        let decision = store.decide(&[charge(&begun, old, 1)]).await;
        let expected = if turn < 5 {
            Outcome::Admitted
        } else {
            Outcome::Refused
        };
        assert_eq!((decision.outcome, error_of(&decision)), (expected, None));
    }
    assert!(calls(cluster, 1, "asking").await >= 6);
    // Of these keys one is still here and two begin there, and no script reaches them all.
    let beside = limit("beside", every_algorithm(2, quiet_window())[3]);
    let charges = [
        charge(&five, old, 1),
        charge(&begun, old, 1),
        charge(&beside, old, 1),
    ];
    let decision = store.decide(&charges).await;
    assert_eq!(
        (decision.outcome, error_of(&decision)),
        (Outcome::Refused, None)
    );
    for left in [1, 0] {
        let charges = [charge(&five, old, 1), charge(&beside, old, 1)];
        let decision = store.decide(&charges).await;
        assert_eq!(
            (decision.outcome, error_of(&decision)),
            (Outcome::Admitted, None)
        );
        let told = decision.verdicts.iter().flatten();
        assert!(told.into_iter().all(|verdict| verdict.remaining == left));
    }
    cluster.move_slots(0, 1, slot..slot + 1).await;
    for used_up in [&five, &begun, &beside] {
        let decision = store.decide(&[charge(used_up, old, 1)]).await;
        assert_eq!(
            (decision.outcome, error_of(&decision)),
            (Outcome::Refused, None)
        );
    }
}

/// Hundreds of slots go from one primary to another while clients in all of them are counted.
async fn slots_that_move_under_load(cluster: &RedisCluster) {
    const LIMIT: u64 = 40;
    let store = Arc::new(connect_exact(&cluster.url(), Duration::from_secs(2)).await);
    decides(&store, 0).await;
    let forty = Arc::new(limit("moved", every_algorithm(LIMIT, quiet_window())[3]));
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..8_u64 {
        let (store, forty, over) = (store.clone(), forty.clone(), over.clone());
        tasks.spawn(async move {
            let mut admitted = HashMap::<u64, u64>::new();
            let mut turn = task;
            while !over.load(Ordering::Relaxed) {
                turn += 1;
                let client = 5_000 + turn % 500;
                let decision = store.decide(&[charge(&forty, client, 1)]).await;
                assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
                *admitted.entry(client).or_default() +=
                    u64::from(decision.outcome == Outcome::Admitted);
            }
            admitted
        });
    }
    let began = Instant::now();
    let connections = connections(cluster).await;
    cluster
        .move_slots(
            2,
            1,
            RedisCluster::first_slots(2).start..RedisCluster::first_slots(2).start + 400,
        )
        .await;
    let took = began.elapsed();
    over.store(true, Ordering::Relaxed);
    let mut admitted = HashMap::<u64, u64>::new();
    let mut asked = 0;
    while let Some(of_task) = tasks.join_next().await {
        for (client, count) in of_task.unwrap() {
            *admitted.entry(client).or_default() += count;
            asked += count;
        }
    }
    // Who did not use all of it up does so now; more than all, nobody did.
    for client in 5_000..5_500 {
        let count = admitted.entry(client).or_default();
        while store.decide(&[charge(&forty, client, 1)]).await.outcome == Outcome::Admitted {
            *count += 1;
        }
        assert_eq!(*count, LIMIT, "client {client}");
    }
    let more = self::connections(cluster).await - connections;
    eprintln!("400 slots moved in {took:?}, {asked} admitted meanwhile, {more} connections made");
    // The test's own: three to move with and two to open each slot, one to look.
    assert!(more <= 3 + 2 * 400 + 6 + 10, "{more} connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_dies_or_hangs_concerns_its_own_clients_only() {
    let cluster = RedisCluster::start().await;
    let store = Arc::new(connect(&cluster.url(), Duration::from_millis(100)).await);
    for client in 0..30 {
        decides(&store, client).await;
    }
    let dead = 0;
    let (of_dead, of_others): (Vec<u64>, Vec<u64>) = (10_000..10_300)
        .partition(|client| RedisCluster::first_slots(dead).contains(&slot_of(*client)));
    assert!(of_dead.len() > 50 && of_others.len() > 100);
    for hang in [true, false] {
        let watch = tokio::spawn(served(
            store.clone(),
            of_others.clone(),
            Duration::from_secs(2),
        ));
        let failed = Instant::now();
        if hang {
            cluster.node(dead).pause().await;
        } else {
            // By now its replica is the primary.
            cluster.node(dead + 3).stop();
        }
        let (by_redis, all) = watch.await.unwrap();
        eprintln!("hung: {hang}; {by_redis} of {all} decisions elsewhere by Redis");
        assert!(by_redis * 100 >= all * 99, "{by_redis} of {all}");
        decides(&store, of_dead[0]).await;
        let back = failed.elapsed();
        eprintln!("its own clients are decided again after {back:?}");
        assert!(back < Duration::from_secs(15), "{back:?}");
        if hang {
            cluster.node(dead).resume();
            wait_for("a primary that follows", async || {
                let role = cluster.node(dead).command(&["INFO", "replication"]).await;
                role.as_str()
                    .contains("master_link_status:up")
                    .then_some(())
            })
            .await;
        }
        let first = if hang { 20_000 } else { 30_000 };
        let patient = connect_exact(&cluster.url(), TIMEOUT).await;
        decides(&patient, of_dead[0]).await;
        counts_exactly(&patient, first..first + 30).await;
    }
}

/// Decides about these clients for a while: how many of how many Redis decided.
async fn served(store: Arc<RedisStore>, clients: Vec<u64>, long: Duration) -> (u64, u64) {
    let local = Limit::new(
        "local",
        every_algorithm(1_000_000, quiet_window())[2],
        OnFailure::Local,
    );
    let (mut by_redis, mut all) = (0, 0);
    let began = Instant::now();
    while began.elapsed() < long {
        for client in clients.iter().step_by(7) {
            let decision = store.decide(&[charge(&local, *client, 1)]).await;
            assert_eq!(decision.outcome, Outcome::Admitted);
            by_redis += u64::from(decision.via == Via::Store);
            all += 1;
        }
    }
    (by_redis, all)
}

/// A client's slot, by the test's own arithmetic (CRC16, as the specification of Redis Cluster has it).
pub(crate) fn slot_of(client: u64) -> u16 {
    let probe = limit("probe", every_algorithm(1, quiet_window())[0]);
    let key = charge(&probe, client, 1).redis_key("tidegate");
    let tag = key.split_once('{').unwrap().1.split_once('}').unwrap().0;
    let shifted = |crc: u16| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
    let crc = tag.bytes().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| shifted(crc))
    });
    crc % 16384
}

async fn connections(cluster: &RedisCluster) -> u64 {
    let mut sum = 0;
    for node in 0..3 {
        let info = cluster.node(node).command(&["INFO", "stats"]).await;
        sum += number_after(&info, "total_connections_received:");
    }
    sum
}

/// How often a node ran a command, by its own count.
pub(crate) async fn calls(cluster: &RedisCluster, node: usize, command: &str) -> u64 {
    let info = cluster.node(node).command(&["INFO", "commandstats"]).await;
    number_after(&info, &format!("cmdstat_{command}:calls="))
}

fn number_after(info: &Reply, name: &str) -> u64 {
    let Some((_, rest)) = info.as_str().split_once(name) else {
        return 0;
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..digits].parse().unwrap()
}
