//! Synced limits and a Redis that does not answer: what is given away meanwhile, and that no count is lost.

use std::time::Duration;

use tidegate_core::Quota;
use tidegate_store::redis::RedisOptions;
use tidegate_store::{Limit, Mode, OnFailure, Outcome, Via};
use tidegate_testkit::{FaultProxy, RedisServer, Way};

use crate::support::{Random, charge, every_algorithm, options, quiet_window, wait_for};
use crate::synced_kit::{Gateway, leaves, quotas};

const TIMEOUT: Duration = Duration::from_millis(150);
const OFTEN: Duration = Duration::from_millis(20);

async fn gateway(url: &str, gateways: Option<u64>) -> Gateway {
    Gateway::with(RedisOptions {
        sync_every: OFTEN,
        gateways,
        ..options(url, TIMEOUT)
    })
    .await
}

fn synced(quota: Quota, on_failure: OnFailure) -> Limit {
    Limit::new("synced", quota, on_failure).in_mode(Mode::Synced)
}

/// Waits until an exchange of this key has failed.
async fn is_silent(gateway: &Gateway, quota: Quota, client: u64) {
    let closed = synced(quota, OnFailure::Closed);
    // It can never be admitted, and never counts, while Redis answers.
    wait_for("an exchange that fails", async || {
        let decision = gateway
            .decide(&[charge(&closed, client, quota.capacity())])
            .await;
        assert_ne!(decision.outcome, Outcome::Admitted);
        (decision.outcome == Outcome::Unavailable).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_follows_its_on_failure_and_all_is_counted() {
    for quota in quotas(40, quiet_window()) {
        let server = RedisServer::start().await;
        let gateway = gateway(&server.url(), Some(4)).await;
        let local = synced(quota, OnFailure::Local);
        let [open, closed] = [OnFailure::Open, OnFailure::Closed].map(|it| synced(quota, it));
        for client in [1, 2] {
            assert!(gateway.admits(&[charge(&local, client, 20)]).await);
            leaves(&gateway, charge(&local, client, 1), 20).await;
        }
        server.pause().await;
        is_silent(&gateway, quota, 1).await;
        is_silent(&gateway, quota, 2).await;

        // Half was used; a quarter of the rest is this gateway's share.
        for left in (0..5).rev() {
            let decision = gateway.decide(&[charge(&local, 1, 1)]).await;
            assert_eq!(
                (decision.outcome, decision.via),
                (Outcome::Admitted, Via::Fallback)
            );
            assert_eq!(decision.verdicts[0].unwrap().remaining, left);
        }
        let decision = gateway.decide(&[charge(&local, 1, 1)]).await;
        assert_eq!(
            (decision.outcome, decision.via),
            (Outcome::Refused, Via::Fallback)
        );
        assert!(decision.verdicts[0].unwrap().retry_after > 0);
        for _ in 0..30 {
            let decision = gateway.decide(&[charge(&open, 2, 1)]).await;
            assert_eq!(
                (decision.outcome, decision.via),
                (Outcome::Admitted, Via::Fallback)
            );
            assert_eq!(decision.verdicts[..], [None]);
        }
        let decision = gateway.decide(&[charge(&closed, 2, 1)]).await;
        assert_eq!(decision.outcome, Outcome::Unavailable);
        // A key that was not known before starts with a share as well, and with none if its limit is closed.
        assert_eq!(
            gateway.decide(&[charge(&closed, 3, 1)]).await.outcome,
            Outcome::Unavailable
        );
        let mut admitted = 0;
        while gateway.admits(&[charge(&local, 4, 1)]).await {
            admitted += 1;
        }
        assert_eq!(admitted, 10, "a quarter of all");

        server.resume();
        for (client, left) in [(1, 15), (2, 0), (3, 40), (4, 30)] {
            leaves(&gateway, charge(&local, client, 1), left).await;
            wait_for("a decision by totals", async || {
                let decision = gateway.decide(&[charge(&closed, client, 40)]).await;
                let answered = decision.outcome != Outcome::Unavailable;
                assert_eq!(answered, decision.via == Via::Here);
                answered.then_some(())
            })
            .await;
        }
    }
}

/// Beside a closed limit without Redis nothing is spent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_reserved_beside_a_closed_limit_is_given_back() {
    let server = RedisServer::start().await;
    let gateway = gateway(&server.url(), None).await;
    server.stop();
    for quota in quotas(5, quiet_window()) {
        let limit = synced(quota, OnFailure::Local);
        let closed = Limit::new(
            "exact",
            every_algorithm(5, quiet_window())[0],
            OnFailure::Closed,
        );
        for _ in 0..9 {
            let both = [charge(&limit, 1, 1), charge(&closed, 1, 1)];
            let decision = gateway.decide(&both).await;
            assert_eq!(decision.outcome, Outcome::Unavailable);
        }
        let mut admitted = 0;
        while gateway.admits(&[charge(&limit, 1, 1)]).await {
            admitted += 1;
        }
        assert_eq!(admitted, 5);
    }
}

/// Counts for `time`, by all gateways, and with whatever on_failure says; how much was admitted.
async fn count(gateways: &[Gateway], limit: &Limit, time: Duration) -> u64 {
    let start = std::time::Instant::now();
    let mut admitted = 0;
    while start.elapsed() < time {
        for gateway in gateways {
            for cost in 1..=3 {
                let charges = [charge(limit, 1, cost)];
                admitted += if gateway.admits(&charges).await {
                    cost
                } else {
                    0
                };
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    admitted
}

/// Frozen, and killed with all that it knew, for `outage` each.
async fn loses_no_count(outage: Duration) {
    for quota in quotas(1_000_000, quiet_window()) {
        let limit = synced(quota, OnFailure::Open);
        let server = RedisServer::start().await;
        let mut gateways = Vec::new();
        for _ in 0..4 {
            gateways.push(gateway(&server.url(), None).await);
        }
        let mut admitted = count(&gateways, &limit, 5 * OFTEN).await;
        server.pause().await;
        admitted += count(&gateways, &limit, outage).await;
        server.resume();
        let left = |admitted| 1_000_000 - admitted;
        leaves(&gateways[0], charge(&limit, 1, 1), left(admitted)).await;
        admitted += count(&gateways, &limit, 5 * OFTEN).await;
        server.stop();
        admitted += count(&gateways, &limit, outage).await;
        server.restart().await;
        leaves(&gateways[0], charge(&limit, 1, 1), left(admitted)).await;
        for gateway in &gateways {
            wait_for("the others' counts", async || {
                (gateway.left_here(charge(&limit, 1, 1)).await == Some(left(admitted)))
                    .then_some(())
            })
            .await;
        }
        eprintln!(
            "{}: {admitted} admitted, all of them counted",
            quota.algorithm()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_outage_loses_no_count() {
    loses_no_count(3 * TIMEOUT).await;
}

/// `cargo test -p tidegate-store --test it -- --ignored --nocapture five_seconds`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute"]
async fn an_outage_of_five_seconds_loses_no_count() {
    loses_no_count(Duration::from_secs(5)).await;
}

/// Requests of three gateways while replies are swallowed, connections reset and Redis frozen at random; every third
/// request is refused elsewhere, and given back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_lost_on_the_way_the_totals_agree() {
    let server = RedisServer::start().await;
    let (mut proxies, mut gateways) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let proxy = FaultProxy::start(server.addr());
        gateways.push(gateway(&format!("redis://{}", proxy.addr()), None).await);
        proxies.push(proxy);
    }
    let never = Limit::new(
        "never",
        every_algorithm(1, quiet_window())[2],
        OnFailure::Closed,
    )
    .in_mode(Mode::Local);
    let limits = quotas(1_000_000, quiet_window()).map(|quota| synced(quota, OnFailure::Open));
    let mut random = Random(11);
    let mut counted = [[0_u64; 3]; 2];
    for _ in 0..1_500 {
        let (gateway, of) = (random.pick(&[0, 1, 2]), random.pick(&[0, 1]));
        let (client, cost) = (random.between(0, 2), random.between(1, 9));
        let mut charges = vec![charge(&limits[of], client, cost)];
        if random.between(0, 2) == 0 {
            charges.push(charge(&never, 9, 1));
        }
        if gateways[gateway].admits(&charges).await {
            counted[of][client as usize] += cost;
        }
        let proxy = &proxies[random.pick(&[0, 1, 2])];
        match random.between(0, 60) {
            0 => proxy.stall(Way::ToClient, true),
            1 => proxy.stall(Way::ToServer, true),
            2..=4 => proxy.reset(),
            5..=7 => proxy.cut(),
            8..=14 => proxy.heal(),
            15..=40 => tokio::time::sleep(Duration::from_millis(random.between(0, 8))).await,
            _ => {}
        }
    }
    proxies.iter().for_each(FaultProxy::heal);
    for (limit, counted) in limits.iter().zip(counted) {
        for (client, counted) in (0..).zip(counted) {
            assert!(counted > 0);
            leaves(&gateways[0], charge(limit, client, 1), 1_000_000 - counted).await;
        }
    }
    // Nothing comes later.
    tokio::time::sleep(2 * TIMEOUT).await;
    for (limit, counted) in limits.iter().zip(counted) {
        for (client, counted) in (0..).zip(counted) {
            let left = gateways[0].left_in_redis(charge(limit, client, 1)).await;
            assert_eq!(left, Some(1_000_000 - counted));
        }
    }
    let failures: u64 = gateways
        .iter()
        .map(|gateway| gateway.synced_usage().failures)
        .sum();
    assert!(failures > 0, "nothing was lost");
}
