//! Before and after the trouble: gateways that know of each other, and what is left when all has settled.

use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tidegate_store::{Charge, Limit, Mode, OnFailure, Outcome, RedisStore, Store, StoreError, Via};

use crate::history::{Look, Return};
use crate::law::{Kind, Numbers};
use crate::machine::{Trial, key_of, now};

/// How long something may take that comes at once on a machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(60);

/// A key that nobody asks for.
const FRESH: u64 = 1_000;

/// The longest retry-after that is waited for.
const SOON: Micros = 700_000;

/// Waits until each gateway was told of all.
pub(crate) async fn everybody_is_counted(trial: &Trial) {
    let all = trial.case.gateways;
    let all_know = || {
        let counts = trial.log.counts.lock().unwrap();
        (0..all).all(|gateway| {
            let mut own = counts.iter().filter(|count| count.gateway == gateway);
            own.any(|count| count.count == all as u64)
        })
    };
    let deadline = Instant::now() + PATIENCE;
    while !all_know() {
        again(deadline).await;
    }
}

/// Ends all trouble, waits until all that was said has arrived, and looks at what is left.
pub(crate) async fn settle_and_look(trial: &Trial) {
    for place in 0..trial.gateways.len() {
        let gateway = trial.gateway(place);
        if let Some(proxy) = &gateway.proxy {
            proxy.heal();
        }
        if let Store::Redis(store) = &gateway.store {
            until_it_decides(store).await;
        }
        // As long as nothing is lost, nothing takes as long as that.
        let _ = tokio::time::timeout(PATIENCE, gateway.store.let_go()).await;
    }
    for place in 0..trial.gateways.len() {
        let gateway = trial.gateway(place);
        gateway.store.close().await;
    }
    let auditor = match trial.fleet.url() {
        None => trial.gateway(0).store.clone(),
        Some(url) => {
            let store = trial.fleet.connect(url, true).await;
            until_it_decides(&store).await;
            Store::Redis(std::sync::Arc::new(store))
        }
    };
    look(trial, &auditor).await;
    come_back(trial, &auditor).await;
}

/// Whether Redis decides about each key, wherever it is.
async fn decides(store: &RedisStore) -> bool {
    for key in [0, 1, FRESH] {
        if !decides_on(store, key).await {
            return false;
        }
    }
    true
}

async fn decides_on(store: &RedisStore, key: u64) -> bool {
    let numbers = Numbers {
        limit: 1_000_000,
        refill: 1,
        per: 1,
    };
    let probe = Limit::new(
        "probe",
        numbers.quota(Kind::TokenBucket, 1),
        OnFailure::Open,
    );
    let charge = Charge {
        limit: &probe,
        key: key_of(key),
        cost: 1,
        origin: None,
    };
    store.decide(&[charge]).await.via == Via::Store
}

/// Waits a moment, and not for ever.
async fn again(deadline: Instant) {
    assert!(Instant::now() < deadline, "not within {PATIENCE:?}");
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Waits until Redis decides.
async fn until_it_decides(store: &RedisStore) {
    let deadline = Instant::now() + PATIENCE;
    while !decides(store).await {
        again(deadline).await;
    }
}

/// The numbers and the limit of the most generous plan that a limit has, or had.
fn most_generous(trial: &Trial, limit: usize) -> (Numbers, Limit) {
    let case = &trial.case.limits[limit];
    let requests = trial.log.requests.lock().unwrap();
    let charges = requests.iter().flat_map(|request| &request.charges);
    let asked = charges
        .filter(|charge| charge.limit == limit)
        .map(|charge| charge.numbers);
    let numbers = asked
        .chain(case.plans.iter().copied())
        .max_by_key(|numbers| numbers.limit);
    let numbers = numbers.unwrap();
    let (_, own) = trial.limit(limit, 0);
    (
        numbers,
        own.with_quota(numbers.quota(case.kind, case.window)),
    )
}

async fn look(trial: &Trial, auditor: &Store) {
    for limit in 0..trial.case.limits.len() {
        if trial.case.limits[limit].mode == Mode::Local && !trial.case.in_memory {
            continue;
        }
        let (numbers, own) = most_generous(trial, limit);
        for key in [Some(0), Some(1), None] {
            let charge = Charge {
                limit: &own,
                key: key_of(key.unwrap_or(FRESH)),
                cost: 1,
                origin: None,
            };
            let outlook = ask_until_answered(auditor, &[charge]).await;
            let look = Look {
                limit,
                key,
                numbers,
                at: outlook.now,
                remaining: outlook.verdict.remaining,
            };
            trial.log.looks.lock().unwrap().push(look);
        }
    }
}

async fn ask_until_answered(auditor: &Store, charges: &[Charge<'_>]) -> tidegate_store::Outlook {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match auditor.peek(charges).await {
            Ok(outlooks) => return outlooks[0],
            Err(StoreError::Timeout | StoreError::Late) if Instant::now() < deadline => {}
            Err(error) => panic!("no look: {error}"),
        }
    }
}

/// Uses up a key, and comes back when that is said to be worth it.
async fn come_back(trial: &Trial, auditor: &Store) {
    for limit in 0..trial.case.limits.len() {
        let case = &trial.case.limits[limit];
        if case.kind == Kind::Concurrency || case.mode != Mode::Exact {
            continue;
        }
        let (_, own) = most_generous(trial, limit);
        let charge = Charge {
            limit: &own,
            key: key_of(0),
            cost: 1,
            origin: None,
        };
        let mut asked = 0;
        let refused = loop {
            let decision = auditor.decide(&[charge]).await;
            asked += 1;
            if decision.outcome != Outcome::Admitted {
                break Some(decision);
            }
            if asked > own.quota().capacity() + 10 {
                break None;
            }
        };
        let Some(refused) = refused.filter(|refused| refused.outcome == Outcome::Refused) else {
            continue;
        };
        let retry_after = refused.verdicts[0].map_or(0, |verdict| verdict.retry_after);
        if retry_after > SOON {
            continue;
        }
        // Whoever is refused counts from the answer.
        let due = now() + retry_after;
        tokio::time::sleep(Duration::from_micros(due.saturating_sub(now()) + 1)).await;
        let asked_again = now();
        let again = auditor.decide(&[charge]).await;
        if matches!(again.via, Via::Fallback) {
            continue;
        }
        trial.log.returns.lock().unwrap().push(Return {
            limit,
            key: 0,
            refused: refused.now,
            retry_after,
            asked_again,
            admitted: again.outcome == Outcome::Admitted,
        });
        return;
    }
}
