//! Limits of which gateways exchange their counts now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_store::{Charge, Outcome, Store, Via};
use tidegate_testkit::RedisServer;

use crate::support::{charge, every_algorithm, exact_store, limit, quiet_window, wait_for};
use crate::synced_kit::{Gateway, leaves, quotas, synced};

const OFTEN: Duration = Duration::from_millis(5);

async fn two(server: &RedisServer, sync_every: Duration) -> [Gateway; 2] {
    let url = server.url();
    [
        Gateway::start(&url, sync_every).await,
        Gateway::start(&url, sync_every).await,
    ]
}

#[tokio::test]
async fn requests_are_decided_here_and_redis_is_told() {
    let server = RedisServer::start().await;
    let [one, other] = two(&server, OFTEN).await;
    for limit in &synced(10) {
        for left in (6..10).rev() {
            let decision = one.decide(&[charge(limit, 1, 1)]).await;
            assert_eq!((decision.via, &decision.call), (Via::Here, &None));
            let verdict = decision.verdicts[0].unwrap();
            assert_eq!((verdict.allowed, verdict.remaining), (true, left));
            assert!(verdict.reset > 0 && verdict.retry_after == 0);
        }
        leaves(&one, charge(limit, 1, 1), 6).await;
        // The other one hears of it as soon as it is asked.
        assert!(other.admits(&[charge(limit, 1, 2)]).await);
        wait_for("all counts", async || {
            (other.left_here(charge(limit, 1, 1)).await == Some(4)).then_some(())
        })
        .await;
        assert!(!other.admits(&[charge(limit, 1, 5)]).await);
        assert!(other.admits(&[charge(limit, 1, 4)]).await);
        leaves(&other, charge(limit, 1, 1), 0).await;
        wait_for("a refusal", async || {
            let decision = one.decide(&[charge(limit, 1, 1)]).await;
            let verdict = decision.verdicts[0].unwrap();
            let refused = decision.outcome == Outcome::Refused;
            assert_eq!(refused, verdict.retry_after > 0);
            refused.then_some(())
        })
        .await;
    }
    for gateway in [one, other] {
        let usage = gateway.synced_usage();
        assert_eq!((usage.keys, usage.no_place, usage.failures), (2, 0, 0));
        assert!(usage.exchanges > 0);
        assert_eq!(usage.overshoots.len(), 1, "both are of one name");
    }
}

/// The state is the one that `exact` keeps, so a limit may change its mode.
#[tokio::test]
async fn exact_and_synced_count_under_one_key() {
    let server = RedisServer::start().await;
    let [one, other] = two(&server, OFTEN).await;
    for (shared, quota) in synced(10).iter().zip(quotas(10, quiet_window())) {
        let exact = limit("synced", quota);
        for _ in 0..3 {
            assert!(other.admits(&[charge(&exact, 1, 1)]).await);
        }
        assert!(one.admits(&[charge(shared, 1, 4)]).await);
        leaves(&other, charge(&exact, 1, 1), 3).await;
        wait_for("what the exact ones took", async || {
            (one.left_here(charge(shared, 1, 1)).await == Some(3)).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn all_or_nothing_beside_other_limits() {
    let server = RedisServer::start().await;
    let [one, other] = two(&server, OFTEN).await;
    let [fixed, sliding] = synced(10);
    let exact = limit("exact", every_algorithm(12, quiet_window())[0]);
    let charges = |cost| {
        [
            charge(&fixed, 1, cost),
            charge(&exact, 1, 1),
            charge(&sliding, 1, 1),
        ]
    };
    for gateway in [&one, &other] {
        for _ in 0..2 {
            assert!(gateway.admits(&charges(2)).await);
        }
        // Too much for the first: the others keep what they have.
        assert!(!gateway.admits(&charges(9)).await);
    }
    leaves(&one, charges(1)[0], 2).await;
    leaves(&one, charges(1)[1], 8).await;
    leaves(&one, charges(1)[2], 6).await;
    // Too much for the exact one: what was reserved here is given back, to Redis as well if it was told.
    while one.admits(&charges(1)[1..2]).await {}
    for _ in 0..30 {
        assert!(!one.admits(&charges(1)).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    wait_for("what was given back", async || {
        let left = [
            one.left_in_redis(charges(1)[0]).await,
            one.left_in_redis(charges(1)[2]).await,
        ];
        (left == [Some(2), Some(6)]).then_some(())
    })
    .await;
    wait_for("totals here", async || {
        (one.left_here(charges(1)[0]).await == Some(2)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn changed_numbers_count_at_once() {
    let server = RedisServer::start().await;
    let gateway = Gateway::start(&server.url(), OFTEN).await;
    for (small, large) in synced(3).into_iter().zip(synced(30)) {
        for _ in 0..3 {
            assert!(gateway.admits(&[charge(&small, 1, 1)]).await);
        }
        assert!(!gateway.admits(&[charge(&small, 1, 1)]).await);
        assert!(gateway.admits(&[charge(&large, 1, 27)]).await);
        assert!(!gateway.admits(&[charge(&large, 1, 1)]).await);
    }
}

/// Admits until both refuse, by what they know.
async fn use_up(gateways: &[Gateway; 2], charge: Charge<'_>) {
    wait_for("all of it to be used", async || {
        let mut refused = true;
        for gateway in gateways {
            refused &= !gateway.admits(&[charge]).await;
        }
        refused.then_some(())
    })
    .await;
}

/// Waits until so much is left here.
async fn keeps(gateway: &Gateway, charge: Charge<'_>, left: u64) {
    wait_for(&format!("{left} left here"), async || {
        (gateway.left_here(charge).await == Some(left)).then_some(())
    })
    .await;
}

/// Of what was counted before, nothing comes back; and a limit that refuses is heard of every second, however seldom
/// counts are exchanged otherwise.
#[tokio::test]
async fn a_reset_gives_everybody_the_full_quota() {
    let server = RedisServer::start().await;
    for (sync_every, rounds) in [(OFTEN, 2), (Duration::from_secs(60), 1)] {
        let gateways = two(&server, sync_every).await;
        let [one, other] = &gateways;
        for limit in &synced(10) {
            let it = charge(limit, sync_every.as_millis() as u64, 1);
            for _ in 0..rounds {
                use_up(&gateways, it).await;
                one.reset(&[it]).await.unwrap();
                keeps(one, it, 10).await;
                let start = Instant::now();
                while !other.admits(&[it]).await {
                    assert!(start.elapsed() < Duration::from_secs(20), "refused");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                keeps(other, it, 9).await;
            }
        }
    }
}

/// Two limits at one gateway, and each keeps to its own interval; also after a reload that changes it.
#[tokio::test]
async fn each_limit_is_exchanged_at_its_own_interval() {
    const SELDOM: Duration = Duration::from_secs(60);
    let server = RedisServer::start().await;
    for (of_store, own) in [(SELDOM, OFTEN), (OFTEN, SELDOM)] {
        let gateway = Gateway::start(&server.url(), of_store).await;
        for limit in &synced(10) {
            let (stored, own) = (limit.clone(), limit.clone().synced_every(own));
            let key = of_store.as_millis() as u64;
            let [stored, own] = [charge(&stored, key, 1), charge(&own, key + 1, 1)];
            let (often, seldom) = match of_store == OFTEN {
                true => (stored, own),
                false => (own, stored),
            };
            for it in [often, seldom] {
                // The first request of a key starts an exchange at once.
                assert!(gateway.admits(&[it]).await);
                leaves(&gateway, it, 9).await;
            }
            for it in [seldom, often] {
                assert!(gateway.admits(&[it]).await);
            }
            leaves(&gateway, often, 8).await;
            assert_eq!(gateway.left_in_redis(seldom).await, Some(9));
            // With another interval a key is exchanged at once, then at the turns of this interval.
            let [sooner, later] = [OFTEN, SELDOM].map(|every| limit.clone().synced_every(every));
            let [sooner, later] =
                [(&sooner, seldom), (&later, often)].map(|(limit, it)| Charge { limit, ..it });
            for left in [7, 6] {
                assert!(gateway.admits(&[sooner]).await);
                leaves(&gateway, sooner, left).await;
            }
            assert!(gateway.admits(&[later]).await);
            leaves(&gateway, later, 7).await;
            for it in [later, sooner] {
                assert!(gateway.admits(&[it]).await);
            }
            leaves(&gateway, sooner, 5).await;
            assert_eq!(gateway.left_in_redis(later).await, Some(7));
        }
    }
}

#[tokio::test]
async fn who_finds_no_place_is_decided_by_redis() {
    let server = RedisServer::start().await;
    // Nothing is exchanged: places are what this is about.
    let store = exact_store(&server).await;
    let [limit, _] = synced(2);
    let mut counted = 0_u64;
    let beyond = loop {
        let decision = store.decide(&[charge(&limit, counted, 1)]).await;
        assert_eq!(decision.outcome, Outcome::Admitted);
        match decision.via {
            Via::Here => counted += 1,
            Via::Store => break counted,
            via => panic!("{via:?}"),
        }
        assert!(counted <= 100_000 + 64);
    };
    assert!(counted > 90_000, "{counted}");
    let usage = store.synced_usage();
    assert_eq!((usage.keys as u64, usage.no_place), (counted, 1));
    // Beside one that has a place, each is decided in its own way, and all or nothing.
    let charges = [charge(&limit, beyond, 1), charge(&limit, 0, 1)];
    let decision = store.decide(&charges).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Admitted, Via::Store)
    );
    let left = |index: usize| decision.verdicts[index].map(|verdict| verdict.remaining);
    assert_eq!((left(0), left(1)), (Some(0), Some(0)));
    let charges = [charge(&limit, beyond, 1), charge(&limit, 1, 1)];
    assert_eq!(store.decide(&charges).await.outcome, Outcome::Refused);
    let decision = store.decide(&charges[1..]).await;
    assert_eq!(
        (decision.outcome, decision.via),
        (Outcome::Admitted, Via::Here)
    );
}

#[tokio::test]
async fn what_was_counted_is_told_at_the_end() {
    let server = RedisServer::start().await;
    let (one, other) = (
        Gateway::start(&server.url(), Duration::from_secs(60)).await,
        Gateway::start(&server.url(), Duration::from_secs(60)).await,
    );
    for limit in &synced(100) {
        for client in 0..50 {
            assert!(one.admits(&[charge(limit, client, 7)]).await);
        }
    }
    one.close().await;
    for limit in &synced(100) {
        for client in 0..50 {
            let left = other.left_in_redis(charge(limit, client, 1)).await;
            assert_eq!(left, Some(93), "client {client}");
        }
    }
}

#[tokio::test]
async fn a_value_that_is_no_count_concerns_no_other_key() {
    let server = RedisServer::start().await;
    let gateway = Gateway::start(&server.url(), Duration::from_millis(100)).await;
    let [limit, _] = synced(100);
    let [list, text] = [3, 5].map(|client| charge(&limit, client, 1).redis_key("tidegate"));
    server.command(&["RPUSH", &list, "no count"]).await;
    server.command(&["SET", &text, "no count"]).await;
    // All in one call.
    for client in 0..8 {
        gateway.decide(&[charge(&limit, client, 1)]).await;
    }
    for client in (0..8).filter(|client| ![3, 5].contains(client)) {
        leaves(&gateway, charge(&limit, client, 1), 99).await;
        wait_for("an answer about it", async || {
            let decision = gateway.decide(&[charge(&limit, client, 100)]).await;
            (decision.outcome == Outcome::Refused).then_some(())
        })
        .await;
    }
    assert!(gateway.synced_usage().failures > 0);
    server.command(&["DEL", &list, &text]).await;
    for client in [3, 5] {
        leaves(&gateway, charge(&limit, client, 1), 99).await;
    }
}

/// In the memory store nobody shares anything.
#[tokio::test]
async fn in_memory_there_is_nothing_to_exchange() {
    let store = Store::Memory(Arc::default());
    let [limit, _] = synced(1);
    assert_eq!(store.decide(&[charge(&limit, 1, 1)]).await.via, Via::Store);
    store.close().await;
    assert_eq!(store.synced_usage(), Default::default());
}
