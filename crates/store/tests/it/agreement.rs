//! Lua and Rust are two writings of one function. What Redis answered is replayed through the Rust algorithms, at the times that
//! Redis reports. Every number must be equal.
//!
//! Half of the operations run on windows of 5 to 50 ms, so that boundaries are crossed while they run. The other half runs on
//! states that are planted in Redis with old and future stamps, under quotas at the edges of what is allowed.

mod kept;
mod made_up;

use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{KeyHolds, MAX_WINDOW, Micros, Verdict};
use tidegate_store::{Charge, Decision, Limit, Outcome, RedisStore, StoreError};
use tidegate_testkit::{RedisConnection, RedisServer};

use crate::support::{MS, Random, charge, error_of, exact_store, limit};
use kept::{Kept, Keys, decide_here, dropped_or_not};
use made_up::{kinds, plant, quota, ways};

/// Per algorithm, and for mixed lists, unless the environment says how many.
const OPERATIONS: u64 = 100_000;

fn operations() -> u64 {
    let number = std::env::var("TIDEGATE_AGREEMENT_OPERATIONS").ok();
    number.map_or(OPERATIONS, |number| number.parse().unwrap())
}

/// As many clients at once, each with keys of its own.
const TASKS: u64 = 32;
/// The mixed lists, beside the algorithms by their index.
const MIXED: usize = 8;
/// A bucket with the share of a member.
const SHARE: usize = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn token_bucket() {
    agrees(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaky_bucket() {
    agrees(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fixed_window() {
    agrees(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sliding_window_log() {
    agrees(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sliding_window_counter() {
    agrees(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calendar_window() {
    agrees(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrency() {
    agrees(6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fair_share() {
    agrees(SHARE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_lists() {
    agrees(MIXED).await;
}

async fn agrees(algorithm: usize) {
    let server = RedisServer::start().await;
    let store = Arc::new(exact_store(&server).await);
    let wanted = operations();
    let each = wanted / 2 / TASKS + 1;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let seed = 1 + task + 1_000 * algorithm as u64;
        tasks.spawn(cross_boundaries(store.clone(), algorithm, seed, each));
        let planter = server.connect().await;
        tasks.spawn(start_from_planted(
            store.clone(),
            planter,
            algorithm,
            seed,
            each,
        ));
    }
    let seen: Vec<Seen> = tasks.join_all().await;
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).sum::<u64>();
    let (operations, admitted, refused) = (
        sum(|s| s.operations),
        sum(|s| s.admitted),
        sum(|s| s.refused),
    );
    eprintln!("{operations} operations agree: {admitted} admitted, {refused} refused");
    assert!(operations >= wanted);
    // Of two that ask at once.
    let together = sum(|s| s.together);
    assert!(together > wanted / 4, "{together} pairs in one call");
    // Traffic that is only admitted, or only refused, would show little.
    assert!(admitted > wanted / 10 && refused > wanted / 10);
}

#[derive(Default)]
struct Seen {
    operations: u64,
    together: u64,
    admitted: u64,
    refused: u64,
}

/// One client whose quotas have short windows: what it did not finish in one it goes on with in the next.
async fn cross_boundaries(store: Arc<RedisStore>, algorithm: usize, seed: u64, each: u64) -> Seen {
    let mut random = Random(seed);
    let mut seen = Seen::default();
    let kinds = kinds(algorithm, &mut random);
    let plans: Vec<[Limit; 3]> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| {
            // A calendar's are sent along, for a time that a busy machine knows to a tenth of a second.
            let longer = if *kind == 5 { 40 } else { 1 };
            let window = random.between(5, 50) * longer * MS;
            let most = random.between(1, 12);
            let first = quota(*kind, most, window, &mut random);
            let plain = ways(limit(&format!("short-{index}"), first), window, &mut random);
            let plans = [(); 2].map(|()| {
                let most = random.between(1, 12);
                plain.with_quota(quota(*kind, most, window, &mut random))
            });
            let [gold, silver] = plans;
            [plain, gold, silver]
        })
        .collect();
    let fresh = |limit: &Limit| Kept {
        state: limit.quota().fresh(),
        drops: 0,
        blocked_until: 0,
        holds: KeyHolds::default(),
        holds_drop: 0,
    };
    let mut states: Vec<Keys> = vec![plans.iter().map(|[plain, ..]| fresh(plain)).collect()];
    while seen.operations < each {
        let limits: Vec<Limit> = plans
            .iter()
            .map(|plans| plans[random.pick(&[0, 0, 1, 2])].clone())
            .collect();
        let costs = [(); 2].map(|()| {
            let most = limits.iter().map(|limit| limit.quota().capacity().min(3));
            most.map(|most| random.between(1, most)).collect()
        });
        ask(&store, &limits, costs, &mut states, seed, &mut seen).await;
    }
    seen
}

/// One client whose state is made up again and again, then used four times under quotas that change.
async fn start_from_planted(
    store: Arc<RedisStore>,
    mut planter: RedisConnection,
    algorithm: usize,
    seed: u64,
    each: u64,
) -> Seen {
    let mut random = Random(seed << 32);
    let client = seed << 32;
    let mut seen = Seen::default();
    while seen.operations < each {
        let kinds = kinds(algorithm, &mut random);
        let mut limits = Vec::new();
        let mut states = Vec::new();
        let mut numbers = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            // Long windows: nothing that is planted expires under the test.
            let window =
                random.pick(&[60 * 1_000 * MS, 3_599_999 * MS, 3_600_000 * MS, MAX_WINDOW]);
            let most = random.pick(&[1, 2, 3, 10, 1_000, 999_983, 1_000_000]);
            let quota = quota(*kind, most, window, &mut random);
            let limit = ways(limit(&format!("long-{index}"), quota), window, &mut random);
            let state = plant(
                &mut planter,
                &charge(&limit, client, 1),
                window,
                &mut random,
            )
            .await;
            limits.push(limit);
            states.push(state);
            numbers.push((*kind, window));
        }
        let mut states = vec![states];
        for turn in 0..4 {
            for (limit, (kind, window)) in limits.iter_mut().zip(&numbers).filter(|_| turn > 0) {
                let most = random.pick(&[1, 2, 3, 10, 1_000, 999_983, 1_000_000]);
                if random.between(0, 2) == 0 {
                    *limit = limit.with_quota(quota(*kind, most, *window, &mut random));
                }
            }
            let costs = [(); 2].map(|()| {
                let most = limits.iter().map(|limit| limit.quota().capacity());
                most.map(|most| {
                    let cost = random.pick(&[1, 1, 2, most / 2, most]);
                    cost.clamp(1, most.min(4_000))
                })
                .collect()
            });
            ask(&store, &limits, costs, &mut states, client, &mut seen).await;
        }
    }
    seen
}

/// Asks Redis, twice at once, and the Rust algorithms at the times that Redis reports.
async fn ask(
    store: &RedisStore,
    limits: &[Limit],
    costs: [Vec<u64>; 2],
    states: &mut Vec<Keys>,
    client: u64,
    seen: &mut Seen,
) {
    let charges = costs.map(|costs| -> Vec<Charge<'_>> {
        let charge = |(limit, cost)| charge(limit, client, cost);
        limits.iter().zip(costs).map(charge).collect()
    });
    let [one, other] = &charges;
    let begun = Instant::now();
    let (first, second) = tokio::join!(biased; decided(store, one), decided(store, other));
    seen.together += u64::from(first.now == second.now);
    // In one call, which is the rule, the one that asked first is decided first; but not if it was late, and asked again.
    let mut both = [(&first, &one[..]), (&second, &other[..])];
    both.sort_by_key(|(decision, _)| decision.now);
    let took = begun.elapsed().as_micros() as Micros;
    let agreed = in_order(&both, states, took).or_else(|why| {
        both.reverse();
        let is_either = first.now == second.now;
        in_order(&both, states, took)
            .ok()
            .filter(|_| is_either)
            .ok_or(why)
    });
    *states = agreed.unwrap_or_else(|why| panic!("{why}"));
    for decision in [&first, &second] {
        seen.operations += 1;
        if decision.outcome == Outcome::Admitted {
            seen.admitted += 1;
        } else {
            seen.refused += 1;
        }
    }
}

async fn decided(store: &RedisStore, charges: &[Charge<'_>]) -> Decision {
    let mut decision = store.decide(charges).await;
    for _ in 0..100 {
        // On a machine that is too busy to know the time, a calendar's windows are over when they arrive: nothing was charged.
        if error_of(&decision) != Some(StoreError::Late) {
            break;
        }
        decision = store.decide(charges).await;
    }
    assert_eq!(error_of(&decision), None, "Redis must decide");
    decision
}

/// What Redis may hold after decisions that were made in this order and `took` so long together; if there is nothing, why.
///
/// A machine that is too busy may stop Redis within PEXPIRE for longer than a window. Redis then drops at once what a decision of
/// the same call, and so of the same time, would still count.
fn in_order(
    decisions: &[(&Decision, &[Charge<'_>])],
    possible: &[Keys],
    took: Micros,
) -> Result<Vec<Keys>, String> {
    let mut possible = possible.to_vec();
    for (decision, charges) in decisions {
        possible = agreeing(decision, charges, &possible, took)?;
    }
    Ok(possible)
}

/// Compares a decision with those of the Rust algorithms on what Redis may hold, and keeps of that what agrees.
fn agreeing(
    decision: &Decision,
    charges: &[Charge<'_>],
    possible: &[Keys],
    took: Micros,
) -> Result<Vec<Keys>, String> {
    let by_redis: Vec<Verdict> = decision.verdicts.iter().flatten().copied().collect();
    let by_redis = (decision.outcome == Outcome::Admitted, by_redis);
    let mut agreeing: Vec<Keys> = Vec::new();
    let mut first = None;
    for known in possible {
        for mut keys in dropped_or_not(known, charges, decision.now + took) {
            let by_rust = decide_here(decision, charges, &mut keys);
            if by_rust != by_redis {
                first.get_or_insert(by_rust);
            } else if !agreeing.contains(&keys) {
                agreeing.push(keys);
            }
        }
    }
    let now = decision.now;
    // On a machine that stood for longer than the windows last, each key that a decision wrote may be there or not.
    assert!(agreeing.len() <= 4_096, "{}", agreeing.len());
    if agreeing.is_empty() {
        return Err(format!(
            "at {now} Lua says {by_redis:?}, Rust {first:?}, on {charges:#?} and {possible:?}"
        ));
    }
    Ok(agreeing)
}
