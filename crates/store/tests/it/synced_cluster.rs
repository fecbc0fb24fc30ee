//! Synced limits wherever Redis may be: part of the tests of topologies, who have the servers.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_store::{Limit, Mode, OnFailure};
use tidegate_testkit::RedisCluster;

use crate::support::{charge, quiet_window};
use crate::synced_kit::{Gateway, leaves, quotas};
use crate::topologies_cluster::slot_of;

/// Two gateways count for many clients, and find each other's counts at this Redis.
pub(crate) async fn counts_meet(url: &str) {
    meet(url, 1_000..1_050, async {}).await;
}

/// As [`counts_meet`], while the clients' keys are moved from one node to another.
pub(crate) async fn counts_meet_while_slots_move(cluster: &RedisCluster) {
    let clients = 2_000..2_050;
    let moving = async {
        let slots = clients.clone().map(slot_of);
        let there = RedisCluster::first_slots(0);
        let slots: HashSet<u16> = slots.filter(|slot| there.contains(slot)).collect();
        assert!(slots.len() > 5);
        for slot in slots {
            cluster.move_slots(0, 1, slot..slot + 1).await;
        }
    };
    meet(&cluster.url(), clients.clone(), moving).await;
}

async fn meet(url: &str, clients: Range<u64>, meanwhile: impl Future<Output = ()>) {
    let every = Duration::from_millis(10);
    let gateways = [
        Gateway::start(url, every).await,
        Gateway::start(url, every).await,
    ];
    // While one of a key's two parts has moved and the other has not, it is as good as silent.
    let limits = quotas(1_000_000, quiet_window())
        .map(|quota| Limit::new("met", quota, OnFailure::Local).in_mode(Mode::Synced));
    let counting = async |over: &AtomicBool| {
        let mut rounds = 0;
        while rounds < 3 || !over.load(Ordering::Relaxed) {
            for client in clients.clone() {
                for (gateway, limit) in gateways.iter().flat_map(|it| [(it, 0), (it, 1)]) {
                    assert!(gateway.admits(&[charge(&limits[limit], client, 2)]).await);
                }
            }
            rounds += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        rounds
    };
    let over = AtomicBool::new(false);
    let (rounds, ()) = tokio::join!(counting(&over), async {
        meanwhile.await;
        over.store(true, Ordering::Relaxed);
    });
    for limit in &limits {
        for client in clients.clone() {
            leaves(
                &gateways[0],
                charge(limit, client, 1),
                1_000_000 - 4 * rounds,
            )
            .await;
        }
        let first = charge(limit, clients.start, 1);
        gateways[0].reset(&[first]).await.unwrap();
        leaves(&gateways[1], first, 1_000_000).await;
    }
}
