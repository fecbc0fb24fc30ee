//! What requests hold, as the stores tell of it. Settlements wake those who wait under the same key and nobody else. What is kept
//! for a time after its request is free when that is over.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Concurrency, FixedWindow};
use tidegate_store::{Charge, Holds, Limit, Outcome, Store};
use tidegate_testkit::RedisServer;
use tokio::time::timeout;

use crate::support::{
    HOUR, PATIENCE, charge, limit, memory_store, quiet_window, redis_store, wait_for,
};

async fn on_both_stores(case: impl AsyncFn(Store)) {
    case(memory_store()).await;
    let server = RedisServer::start().await;
    case(redis_store(&server).await).await;
}

/// What a request of this client holds under a limit that it fits.
async fn hold(store: &Store, limit: &Arc<Limit>, client: u64) -> Holds {
    let Charge { key, cost, .. } = charge(limit, client, 1);
    let decision = store.decide(&[charge(limit, client, 1)]).await;
    assert_eq!(decision.outcome, Outcome::Admitted);
    let charged = std::iter::once((limit, key, cost));
    store.holds(charged, &decision).unwrap()
}

async fn left(store: &Store, limit: &Limit, client: u64) -> u64 {
    let outlooks = store.peek(&[charge(limit, client, 1)]).await.unwrap();
    outlooks[0].verdict.remaining
}

fn reserving(name: &str) -> Arc<Limit> {
    let quota = FixedWindow::new(5, quiet_window()).unwrap();
    Arc::new(limit(name, quota).reserving(HOUR))
}

#[tokio::test]
async fn a_settlement_wakes_those_who_wait_under_its_key() {
    on_both_stores(async |store| {
        let (one, other) = (reserving("one"), reserving("other"));
        let key = |client| charge(&one, client, 1).key;
        let held = hold(&store, &one, 1).await;
        let own = store.settlements(&one, key(1));
        let others = [
            store.settlements(&one, key(2)),
            store.settlements(&other, key(1)),
        ];
        let (woken, asleep) = (own.next(), others.each_ref().map(|other| other.next()));
        drop({
            let mut held = held;
            held.settle(|_, _| 0);
            held
        });
        timeout(PATIENCE, woken).await.unwrap();
        assert_eq!(left(&store, &one, 1).await, 5, "it is settled by then");
        for asleep in asleep {
            assert!(timeout(Duration::ZERO, asleep).await.is_err());
        }
        // What was settled before is not heard of.
        assert!(timeout(Duration::ZERO, own.next()).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_reset_wakes_those_who_wait_as_well() {
    on_both_stores(async |store| {
        let one = reserving("one");
        let mut held = hold(&store, &one, 1).await;
        let asked = charge(&one, 1, 1);
        let settlements = store.settlements(&one, asked.key);
        let woken = settlements.next();
        store.reset(&[asked]).await.unwrap();
        timeout(PATIENCE, woken).await.unwrap();
        held.settle(|_, reserved| reserved);
    })
    .await;
}

#[tokio::test]
async fn what_is_kept_is_free_when_its_time_is_over_and_not_before() {
    on_both_stores(async |store| {
        let places = Concurrency::new(3, HOUR).unwrap();
        let places = Arc::new(limit("places", places));
        let [short, long] = [
            hold(&store, &places, 1).await,
            hold(&store, &places, 1).await,
        ];
        short.keep(Duration::ZERO);
        long.keep(Duration::from_secs(3_600));
        assert_eq!(left(&store, &places, 1).await, 1);
        store.renew().await;
        wait_for("the first is free", async || {
            (left(&store, &places, 1).await == 2).then_some(())
        })
        .await;
        store.renew().await;
        assert_eq!(left(&store, &places, 1).await, 2, "the second is held");
    })
    .await;
}
