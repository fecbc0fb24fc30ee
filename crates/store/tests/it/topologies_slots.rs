//! Requests whose keys are in several slots of a Redis Cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::{Limit, OnFailure, Outcome, RedisStore, Via};
use tidegate_testkit::RedisCluster;
use tokio::task::JoinSet;

use crate::support::{
    charge, connect_exact, decides, error_of, every_algorithm, limit, quiet_window, wait_for,
};

/// Each client has a limit of its own, and all share another, whose key is elsewhere. Many ask for the last places at once. They
/// never get more than either limit, and what the one charged is given back when the other refuses.
pub(crate) async fn several_slots_are_one_decision(cluster: &RedisCluster) {
    const CLIENTS: std::ops::Range<u64> = 40_000..40_020;
    let url = cluster.url().replace("://", "://gate:hunter2@");
    let store = Arc::new(connect_exact(&url, Duration::from_secs(5)).await);
    decides(&store, 0).await;
    for (index, most) in (0..7).flat_map(|index| [(index, 30), (index, 1_000)]) {
        let name = format!("own-{most}");
        let own = Arc::new(limit(&name, every_algorithm(3, quiet_window())[index]));
        let quota = every_algorithm(most, quiet_window())[index];
        let all = Arc::new(limit(&format!("all-{most}"), quota).shared());
        let ask = async |client: u64| {
            let charges = [charge(&own, client, 1), charge(&all, 50_000, 1)];
            let decision = store.decide(&charges).await;
            assert_eq!((decision.via, error_of(&decision)), (Via::Store, None));
            assert!(decision.verdicts.iter().all(Option::is_some));
            u64::from(decision.outcome == Outcome::Admitted)
        };
        let mut tasks = JoinSet::new();
        for turn in 0..12 * 20 {
            let (store, own, all) = (store.clone(), own.clone(), all.clone());
            let client = CLIENTS.start + turn / 12;
            tasks.spawn(async move {
                let charges = [charge(&own, client, 1), charge(&all, 50_000, 1)];
                let decision = store.decide(&charges).await;
                (client, u64::from(decision.outcome == Outcome::Admitted))
            });
        }
        let mut admitted = HashMap::<u64, u64>::new();
        for (client, count) in tasks.join_all().await {
            *admitted.entry(client).or_default() += count;
        }
        assert!(admitted.values().all(|count| *count <= 3), "{admitted:?}");
        assert!(admitted.values().sum::<u64>() <= most);
        // A place in the midst of a queue is not given back: whoever came later has their turn already.
        if matches!(quota, Quota::LeakyBucket(_)) {
            continue;
        }
        // Whoever lost a place to another that was given back too late gets it now.
        for client in CLIENTS {
            let count = admitted.entry(client).or_default();
            wait_for("the last place", async || {
                (left(&store, &own, client).await == 3 - *count).then_some(())
            })
            .await;
            while ask(client).await == 1 {
                *count += 1;
            }
        }
        let sum: u64 = admitted.values().sum();
        assert_eq!(sum, most.min(3 * 20), "{quota:?}");
        wait_for("everything given back", async || {
            (left(&store, &all, 50_000).await == most - sum).then_some(())
        })
        .await;
    }
}

/// How much is left, by what a request is told that another limit refuses.
async fn left(store: &RedisStore, limit: &Limit, client: u64) -> u64 {
    let never = Limit::new(
        "never",
        every_algorithm(1, quiet_window())[0],
        OnFailure::Closed,
    );
    store.decide(&[charge(&never, client, 1)]).await;
    let decision = store
        .decide(&[charge(limit, client, 1), charge(&never, client, 1)])
        .await;
    assert_eq!(decision.outcome, Outcome::Refused);
    decision.verdicts[0].unwrap().remaining
}
