//! Leased limits under whatever may happen in any order. There are several gateways, costs, pauses, requests that another limit
//! refuses, lost answers, and gateways that end or vanish. They never admit more than the limit, by its plain law.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{FixedWindow, Quota};
use tidegate_store::{Charge, Limit, Mode, Outcome, RedisStore};
use tidegate_testkit::{FaultProxy, RedisServer, Way};

use crate::laws::{Admissions, join};
use crate::support::{
    MS, Random, charge, connect, connect_exact, lendable, limit, now, quiet_window,
};

const TIMEOUT: Duration = Duration::from_secs(5);

/// A quota that comes back within a fraction of a second, one that takes many times a slice's term, and one in between.
fn quotas(dice: &mut Random) -> Vec<Quota> {
    let quotas = [
        (20, 300 * MS),
        (50, 900 * MS),
        (400, 3_000 * MS),
        (12, 70 * MS),
    ];
    let all = quotas.map(|(most, window)| lendable(most + dice.between(0, 5), window));
    all.into_iter().flatten().collect()
}

/// What one gateway's clients do: bursts, pauses, and requests that must be refused.
async fn play(
    store: Arc<RedisStore>,
    limits: Arc<Vec<Limit>>,
    never: Arc<Limit>,
    seed: u64,
    end: u64,
) -> Vec<Admissions> {
    let mut dice = Random(seed);
    let mut logs = vec![Admissions::default(); limits.len()];
    while now() < end {
        let nth = dice.between(0, limits.len() as u64 - 1) as usize;
        let cost = dice.pick(&[1, 1, 1, 2, 5]);
        for _ in 0..dice.pick(&[1, 1, 3, 10, 30]) {
            let own = charge(&limits[nth], nth as u64, cost);
            let refused = charge(&never, nth as u64, 1);
            let charges: &[Charge<'_>] = if dice.between(0, 9) == 0 {
                &[own, refused]
            } else {
                &[own]
            };
            let asked = now();
            if store.decide(charges).await.outcome == Outcome::Admitted {
                assert_eq!(charges.len(), 1);
                logs[nth].add(cost, asked, now());
            }
        }
        let pause = dice.pick(&[0, 0, 0, 1, 3, 20]);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    logs
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_it_is_never_more_than_the_limit() {
    let server = RedisServer::start().await;
    let seed = now();
    eprintln!("seed {seed}");
    let mut dice = Random(seed);
    let quotas = quotas(&mut dice);
    let of =
        |(nth, quota): (usize, &Quota)| limit(&format!("l{nth}"), *quota).in_mode(Mode::Leased);
    let limits = Arc::new(quotas.iter().enumerate().map(of).collect::<Vec<_>>());
    let never = limit("never", FixedWindow::new(1, quiet_window()).unwrap());
    let never = Arc::new(never);
    let first = connect(&server.url(), TIMEOUT).await;
    for client in 0..limits.len() as u64 {
        first.decide(&[charge(&never, client, 1)]).await;
    }
    let end = now() + 6_000 * MS;
    // One of them loses its connection, and with it answers, all the time.
    let proxy = FaultProxy::start(server.addr());
    proxy.delay(Way::ToClient, Duration::from_millis(3));
    let losing = format!("redis://{}", proxy.addr());
    let mut cuts = Random(dice.next());
    let cutting = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(cuts.between(50, 400))).await;
            proxy.cut();
        }
    });
    let gateways = [losing, server.url(), server.url()].map(|url| {
        let seed = dice.next();
        let (limits, never) = (limits.clone(), never.clone());
        tokio::spawn(async move {
            let mut dice = Random(seed);
            let mut logs = vec![Admissions::default(); limits.len()];
            // One life after the other, which ends well or not.
            while now() < end {
                let store = Arc::new(connect_exact(&url, TIMEOUT).await);
                let life = end.min(now() + dice.between(300, 3_000) * MS);
                let played = play(
                    store.clone(),
                    limits.clone(),
                    never.clone(),
                    dice.next(),
                    life,
                );
                let played = played.await;
                join(&mut logs, played);
                if dice.between(0, 1) == 0 {
                    store.close().await;
                }
            }
            logs
        })
    });
    let mut logs = vec![Admissions::default(); limits.len()];
    for gateway in gateways {
        let played = gateway.await.unwrap();
        join(&mut logs, played);
    }
    cutting.abort();
    let mut played = logs.iter().zip(&quotas);
    // On a slow machine some limits are not reached.
    assert!(played.any(|(log, quota)| log.len() > quota.capacity()));
    for (log, quota) in logs.iter().zip(&quotas) {
        assert_ne!(log.len(), 0, "{quota:?}");
        assert_eq!(log.excess(quota), 0, "{quota:?}: {}", log.len());
    }
}
