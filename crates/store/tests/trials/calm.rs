//! The time before and after the trouble. Before it, gateways are counted. After it, budgets are checked when all has settled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_core::Micros;
use tidegate_store::{Charge, Limit, Mode, OnFailure, Outcome, RedisStore, Store, StoreError, Via};

use tidegate_testkit::Reply;

use crate::case::{Ask, PLAN, Then, What, budget_key};
use crate::history::{Look, Return};
use crate::law::{Kind, Numbers};
use crate::machine::{Trial, key_of, now};
use crate::work;

/// The longest wait for a result that comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The shortest wait in which Redis answers on a busy machine.
const SHORT: Duration = Duration::from_millis(20);

/// A key without requests.
const FRESH: u64 = 1_000;

/// The longest retry-after for which a trial waits.
const SOON: Micros = 700_000;
/// The same for a leased limit, whose slices come back after 2.6 s.
const SOON_LENT: Micros = 3_000_000;

/// Waits until the heartbeat of each gateway was answered with the number of all gateways.
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

/// Ends all trouble, waits until all messages have arrived, and checks what is left of the budgets.
pub(crate) async fn settle_and_look(trial: &Trial) {
    for place in 0..trial.gateways.len() {
        let gateway = trial.gateway(place);
        if let Some(proxy) = &gateway.proxy {
            proxy.heal();
        }
        if let Store::Redis(store) = &gateway.store {
            until_it_decides(store, short_wait(trial, place)).await;
        }
        // Only a lost message can take this long.
        let _ = tokio::time::timeout(PATIENCE, gateway.store.let_go()).await;
    }
    if !trial.case.has_stepped_clock() {
        come_back_whole(trial).await;
    }
    for place in 0..trial.gateways.len() {
        let gateway = trial.gateway(place);
        gateway.store.close().await;
    }
    let auditor = match trial.fleet.url() {
        None => trial.gateway(0).store.clone(),
        Some(url) => {
            let store = trial.fleet.connect(url, true).await;
            until_it_decides(&store, None).await;
            Store::Redis(Arc::new(store))
        }
    };
    look(trial, &auditor).await;
    come_back(trial, &auditor).await;
}

/// Whether Redis decides requests for each key, on whatever node the key is.
async fn decides(store: &RedisStore, within: Option<Duration>) -> bool {
    for key in [0, 1, FRESH] {
        if !decides_on(store, key, within).await {
            return false;
        }
    }
    true
}

async fn decides_on(store: &RedisStore, key: u64, within: Option<Duration>) -> bool {
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
    store.decide_within(&[charge], within).await.via == Via::Store
}

/// The longest wait of a gateway's decisions, if all of them are short. Such a gateway must notice by them alone that Redis is back.
fn short_wait(trial: &Trial, place: usize) -> Option<Duration> {
    let own = trial.case.work.iter().filter(|it| it.gateway == place);
    let waits = own.filter_map(|work| match work.what {
        What::Ask { within, .. } => Some(within),
        _ => None,
    });
    let waits: Option<Vec<u64>> = waits.collect();
    let longest = waits?.into_iter().max()?;
    Some(Duration::from_millis(longest).max(SHORT))
}

/// Waits a moment. Panics after the deadline.
async fn again(deadline: Instant) {
    assert!(Instant::now() < deadline, "not within {PATIENCE:?}");
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Waits until Redis decides, by decisions that wait for at most `within`.
async fn until_it_decides(store: &RedisStore, within: Option<Duration>) {
    let deadline = Instant::now() + PATIENCE;
    while !decides(store, within).await {
        again(deadline).await;
    }
}

/// The largest numbers that a plan has or had, and the limit with these numbers.
fn most_generous(trial: &Trial, limit: usize, plan: usize) -> (Numbers, Limit) {
    let case = &trial.case.limits[limit];
    let requests = trial.log.requests.lock().unwrap();
    let charges = requests.iter().flat_map(|request| &request.charges);
    let asked = charges
        .filter(|charge| charge.limit == limit && charge.key / PLAN == plan as u64)
        .map(|charge| charge.numbers);
    let numbers = asked
        .chain([case.plans[plan]])
        .max_by_key(|numbers| numbers.limit);
    let numbers = numbers.unwrap();
    let (_, own) = trial.limit(0, limit, plan);
    (
        numbers,
        own.with_quota(numbers.quota(case.kind, case.window)),
    )
}

async fn look(trial: &Trial, auditor: &Store) {
    let limits = trial.case.limits.iter().enumerate();
    let plans =
        limits.flat_map(|(limit, case)| (0..case.plans.len()).map(move |plan| (limit, plan)));
    for (limit, plan) in plans {
        if trial.case.limits[limit].mode == Mode::Local && !trial.case.in_memory {
            continue;
        }
        let (numbers, own) = most_generous(trial, limit, plan);
        for key in [Some(0), Some(1), None] {
            let charge = Charge {
                limit: &own,
                key: key_of(key.unwrap_or(FRESH)),
                cost: 1,
                origin: None,
            };
            let outlook = ask_until_answered(auditor, &[charge]).await;
            let lent = match trial.case.limits[limit].mode {
                Mode::Leased => lent(trial, &charge).await,
                _ => None,
            };
            let look = Look {
                limit,
                key: key.map(|key| budget_key(key, plan)),
                numbers,
                at: outlook.now,
                remaining: outlook.verdict.remaining,
                lent,
            };
            trial.log.looks.lock().unwrap().push(look);
        }
    }
}

/// The lent units in the slices of a key, as Redis has them. `None` with several servers.
async fn lent(trial: &Trial, charge: &Charge<'_>) -> Option<u64> {
    let redis = trial.fleet.server.as_ref()?;
    let key = charge.redis_key(&trial.fleet.key_prefix);
    let slices = redis.command(&["HVALS", &format!("{key}:slices")]).await;
    let out = |slice: &Reply| -> Option<u64> {
        // A slice is `session call settled out lapse`.
        slice.as_str().split(' ').nth(3)?.parse().ok()
    };
    slices.as_array().iter().map(out).sum()
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

/// Most requests that are sent to use up the limits of one request.
const MOST: u64 = 400;

/// The longest time for which counts of other gateways may be on their way.
const UNHEARD: Duration = Duration::from_millis(150);

/// Uses up the limits of a request, at its gateway. After the retry-after, sends the request again.
async fn come_back_whole(trial: &Trial) {
    let asks = trial.case.work.iter().filter_map(|work| match &work.what {
        What::Ask { charges, .. } => Some((work.gateway, charges)),
        _ => None,
    });
    // Holds may be released at any time, so requests with holds are left out.
    let is_final = |charge: &Ask| {
        let case = &trial.case.limits[charge.limit];
        case.kind != Kind::Concurrency && case.reserves.is_none()
    };
    let Some((place, charges)) = asks
        .filter(|(_, charges)| charges.iter().all(is_final))
        .max_by_key(|(_, charges)| charges.len())
    else {
        return;
    };
    let then = Then::Run(0, 1);
    // Other gateways may have slices of a leased limit.
    let is_leased = |charge: &Ask| trial.mode(place, charge.limit) == Mode::Leased;
    let is_leased = charges.iter().any(is_leased) && !trial.case.in_memory;
    let other = (place + 1) % trial.gateways.len();
    for _ in 0..if is_leased { 6 } else { 0 } {
        work::request(trial, other, charges, then, None).await;
    }
    let capacity = charges.iter().map(|charge| {
        let numbers = trial.limit(place, charge.limit, charge.plan).0;
        numbers.limit / charge.cost + 10
    });
    let most = capacity.min().unwrap_or(0).min(MOST);
    let mut refused = None;
    for _ in 0..most {
        refused = work::request(trial, place, charges, then, None).await;
        if refused.is_none_or(|answer| answer.outcome != Outcome::Admitted) {
            break;
        }
    }
    let is_synced = |charge: &Ask| trial.mode(place, charge.limit) == Mode::Synced;
    if charges.iter().any(is_synced) && !trial.case.in_memory {
        // This includes counts of an earlier gateway at this place.
        tokio::time::sleep(UNHEARD).await;
        refused = work::request(trial, place, charges, then, None).await;
    }
    let Some(refused) = refused.filter(|answer| answer.outcome == Outcome::Refused) else {
        return;
    };
    let (Some(retry_after), Some((limit, key))) = (refused.retry_after, refused.by) else {
        return;
    };
    // The gateway may not have learned yet that a leased limit refuses too.
    if is_leased && trial.mode(place, limit) != Mode::Leased {
        return;
    }
    let soon = if is_leased { SOON_LENT } else { SOON };
    if refused.has_error || !refused.is_of_all || retry_after > soon {
        return;
    }
    let began = now();
    tokio::time::sleep(Duration::from_micros(retry_after + 1)).await;
    let asked_again = now();
    let again = work::request(trial, place, charges, then, None).await;
    let Some(again) = again.filter(|again| !again.has_error) else {
        return;
    };
    trial.log.returns.lock().unwrap().push(Return {
        limit,
        key,
        refused: began,
        retry_after,
        asked_again,
        admitted: again.outcome == Outcome::Admitted,
    });
}

/// Uses up a key. After the retry-after, sends a request again.
async fn come_back(trial: &Trial, auditor: &Store) {
    for limit in 0..trial.case.limits.len() {
        let case = &trial.case.limits[limit];
        if case.kind == Kind::Concurrency || case.mode != Mode::Exact {
            continue;
        }
        let own = Arc::new(most_generous(trial, limit, 0).1);
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
            // Its holds are charged before the next request.
            drop(auditor.holds([(&own, charge.key, charge.cost)].into_iter(), &decision));
            let _ = tokio::time::timeout(PATIENCE, auditor.let_go()).await;
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
        // A client counts the retry-after from the answer on.
        let answered = now();
        let due = answered + retry_after;
        tokio::time::sleep(Duration::from_micros(due.saturating_sub(now()) + 1)).await;
        let asked_again = now();
        let again = auditor.decide(&[charge]).await;
        if matches!(again.via, Via::Fallback) {
            continue;
        }
        trial.log.returns.lock().unwrap().push(Return {
            limit,
            key: 0,
            refused: answered,
            retry_after,
            asked_again,
            admitted: again.outcome == Outcome::Admitted,
        });
        return;
    }
}
