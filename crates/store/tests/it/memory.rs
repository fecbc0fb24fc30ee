//! The memory store's bound: how many keys it holds, and who makes place for whom.

use std::sync::{Arc, mpsc};
use std::thread;

use tidegate_core::Quota;
use tidegate_store::{Charge, Decision, Limit, MAX_CHARGES, MemoryStore, Outcome};

use crate::support::{
    HOUR, PATIENCE, Random, SECOND, charge, every_algorithm, limit, now, quiet_window,
};

/// So few keys that they all stand in one shard, and all of them are looked at for a place.
const FEW: usize = 8;

#[test]
fn ten_times_as_many_keys_as_there_is_place_for_do_not_get_in() {
    for max_keys in [1, FEW, 100, 1_000, 5_000] {
        let store = MemoryStore::new(max_keys);
        for quota in every_algorithm(10, quiet_window()) {
            let limit = limit("bounded", quota);
            for client in 0..2 * max_keys as u64 {
                let cost = 1 + client % 10;
                store.decide(&[charge(&limit, client, cost)]);
                holds_at_most(&store, max_keys, 7);
            }
        }
        assert!(store.usage().evicted > 0);
        assert!(store.usage().shared > 0 || max_keys == 1);
    }
}

#[test]
fn requests_with_many_limits_keep_within_the_bound_too() {
    let store = MemoryStore::new(FEW);
    let limits: Vec<Limit> = (0..MAX_CHARGES)
        .map(|index| limit(&format!("many-{index}"), windowed(10)))
        .collect();
    let mut random = Random(3);
    for _ in 0..2_000 {
        let client = random.between(1, 20);
        let charges: Vec<Charge<'_>> = limits
            .iter()
            .filter(|_| random.next().is_multiple_of(2))
            .map(|limit| charge(limit, client, 1))
            .collect();
        store.decide(&charges);
        holds_at_most(&store, FEW, MAX_CHARGES);
    }
}

#[test]
fn a_key_that_is_being_limited_stays_so_through_a_flood() {
    let store = MemoryStore::new(1_000);
    for (client, quota) in (0..).zip(every_algorithm(10, quiet_window())) {
        let limit = limit("limited", quota);
        let used = (5 + client).min(10);
        decided(&store, &[charge(&limit, client, used)], Outcome::Admitted);
        for newcomer in 0..10_000 {
            store.decide(&[charge(&limit, 1_000 + newcomer, 1)]);
        }
        // What it used is known to the last unit.
        let all = charge(&limit, client, 10 - used + 1);
        decided(&store, &[all], Outcome::Refused);
        if used < 10 {
            decided(
                &store,
                &[charge(&limit, client, 10 - used)],
                Outcome::Admitted,
            );
        }
    }
}

#[test]
fn who_used_least_and_less_than_half_makes_place() {
    let store = MemoryStore::new(FEW);
    let limit = limit("place", windowed(10));
    // One has used 4 of 10, the others 5 and more.
    for client in 0..FEW as u64 {
        decided(
            &store,
            &[charge(&limit, client, 4 + client.min(6))],
            Outcome::Admitted,
        );
    }
    decided(&store, &[charge(&limit, 100, 10)], Outcome::Admitted);
    assert_eq!((store.usage().evicted, store.usage().shared), (1, 0));
    // It may then be admitted half a quota too much; that is the bound's price. (It has no place any more, either.)
    decided(&store, &[charge(&limit, 0, 10)], Outcome::Admitted);
    assert_eq!((store.usage().evicted, store.usage().shared), (1, 1));
    for client in 1..FEW as u64 {
        decided(
            &store,
            &[charge(&limit, client, 7 - client.min(6))],
            Outcome::Refused,
        );
    }
}

#[test]
fn newcomers_without_a_place_share_one_budget_per_limit() {
    for quota in every_algorithm(10, quiet_window()) {
        let store = MemoryStore::new(FEW);
        let (limit, other) = (limit("shared", quota), limit("another", quota));
        for client in 0..FEW as u64 {
            decided(&store, &[charge(&limit, client, 10)], Outcome::Admitted);
        }
        for newcomer in 100..110 {
            decided(&store, &[charge(&limit, newcomer, 1)], Outcome::Admitted);
        }
        for newcomer in 110..120 {
            decided(&store, &[charge(&limit, newcomer, 1)], Outcome::Refused);
        }
        decided(&store, &[charge(&other, 110, 1)], Outcome::Admitted);
        assert_eq!((store.usage().evicted, store.usage().shared), (0, 21));
        holds_at_most(&store, FEW, 2);
    }
}

#[test]
fn a_refused_newcomer_flushes_nobody() {
    let store = MemoryStore::new(FEW);
    let (limit, guard) = (limit("place", windowed(10)), limit("guard", windowed(2)));
    decided(&store, &[charge(&guard, 0, 2)], Outcome::Admitted);
    for client in 1..FEW as u64 {
        decided(&store, &[charge(&limit, client, 4)], Outcome::Admitted);
    }
    // A guard that refuses them all: what they would be charged to stays out.
    for newcomer in 100..200 {
        let charges = [charge(&limit, newcomer, 1), charge(&guard, 0, 1)];
        decided(&store, &charges, Outcome::Refused);
    }
    assert_eq!(store.usage().evicted, 0);
    for client in 1..FEW as u64 {
        decided(&store, &[charge(&limit, client, 7)], Outcome::Refused);
    }
}

#[test]
fn a_key_of_this_request_does_not_make_place_for_another() {
    let store = MemoryStore::new(FEW);
    let limits: Vec<Limit> = (0..=FEW)
        .map(|index| limit(&format!("own-{index}"), windowed(10)))
        .collect();
    let charges: Vec<Charge<'_>> = limits.iter().map(|limit| charge(limit, 1, 1)).collect();
    decided(&store, &charges[..FEW], Outcome::Admitted);
    // All places are this client's: the ninth limit counts on what newcomers share.
    for used in 2..=10 {
        let decision = decided(&store, &charges, Outcome::Admitted);
        let left = |index: usize| decision.verdicts[index].unwrap().remaining;
        assert_eq!(
            (left(0), left(FEW - 1), left(FEW)),
            (10 - used, 10 - used, 11 - used)
        );
    }
    decided(&store, &charges, Outcome::Refused);
    assert_eq!((store.usage().evicted, store.usage().shared), (0, 10));
    holds_at_most(&store, FEW, 1);
}

#[test]
fn sweeping_drops_what_has_expired() {
    let store = MemoryStore::new(10_000);
    let quotas = every_algorithm(10, 60 * SECOND);
    let limits = quotas.map(|quota| limit("swept", quota));
    let old = now() - HOUR;
    for client in 0..500 {
        for limit in &limits {
            store.decide_at(&[charge(limit, client, 10)], old);
        }
        let kept = Limit::new("kept", windowed(10), limits[0].on_failure());
        store.decide(&[charge(&kept, client, 1)]);
    }
    assert_eq!(store.usage().keys, 8 * 500);
    // One shard at a time; there are 64 at most.
    for _ in 0..64 {
        store.sweep();
    }
    assert_eq!(store.usage().keys, 500);
}

#[test]
fn what_has_expired_makes_place_before_anyone_else() {
    let store = MemoryStore::new(FEW);
    let (short, long) = (
        limit("short", every_algorithm(10, SECOND)[2]),
        limit("long", windowed(10)),
    );
    let old = now() - HOUR;
    store.decide_at(&[charge(&short, 0, 10)], old);
    for client in 1..FEW as u64 {
        decided(&store, &[charge(&long, client, 1)], Outcome::Admitted);
    }
    decided(&store, &[charge(&long, 100, 1)], Outcome::Admitted);
    assert_eq!(store.usage().evicted, 0);
}

/// As in Redis, where it is gone: a slower rate does not bring back what was paid off under a faster one.
#[test]
fn what_has_expired_stays_so_under_new_numbers() {
    let store = MemoryStore::new(FEW);
    let now = now();
    for of in 0..2 {
        let (fast, slow) = (SECOND, quiet_window());
        let [fast, slow] = [fast, slow].map(|per| limit("faster", every_algorithm(10, per)[of]));
        store.decide_at(&[charge(&fast, 1, 10)], now - HOUR);
        let decision = store.decide_at(&[charge(&slow, 1, 1)], now);
        assert_eq!(decision.verdicts[0].unwrap().remaining, 9);
    }
}

#[test]
fn many_charges_in_any_order_do_not_lock_each_other_out() {
    const THREADS: u64 = 8;
    const REQUESTS: u64 = 1_000;
    let store = Arc::new(MemoryStore::default());
    let (done, finished) = mpsc::channel();
    for thread in 0..THREADS {
        let (store, done) = (store.clone(), done.clone());
        thread::spawn(move || {
            let limits = sixteen();
            let mut random = Random(thread);
            let mut admitted = 0;
            for _ in 0..REQUESTS {
                let mut charges: Vec<Charge<'_>> =
                    limits.iter().map(|limit| charge(limit, 1, 1)).collect();
                for index in (1..charges.len()).rev() {
                    charges.swap(index, random.between(0, index as u64) as usize);
                }
                admitted += u64::from(store.decide(&charges).outcome == Outcome::Admitted);
            }
            let _ = done.send(admitted);
        });
    }
    let admitted = || finished.recv_timeout(PATIENCE).expect("threads that end");
    let sum: u64 = (0..THREADS).map(|_| admitted()).sum();
    // The tightest of them decides, and all of them counted each request once.
    assert_eq!(sum, 5_000);
    for limit in sixteen() {
        let left = limit.quota().capacity() - 5_000;
        if left > 0 {
            decided(&store, &[charge(&limit, 1, left)], Outcome::Admitted);
        }
        decided(&store, &[charge(&limit, 1, 1)], Outcome::Refused);
    }
}

fn sixteen() -> Vec<Limit> {
    (0..MAX_CHARGES as u64)
        .map(|index| limit(&format!("lock-{index}"), windowed(5_000 + index)))
        .collect()
}

fn windowed(most: u64) -> Quota {
    every_algorithm(most, quiet_window())[2]
}

fn decided(store: &MemoryStore, charges: &[Charge<'_>], outcome: Outcome) -> Decision {
    let decision = store.decide(charges);
    assert_eq!(decision.outcome, outcome, "{charges:?}: {decision:?}");
    decision
}

/// The stated bound, rounded up to fill the shards evenly, and what newcomers share: one budget per limit and shard.
fn holds_at_most(store: &MemoryStore, max_keys: usize, limits: usize) {
    let shards = (max_keys / 1_024).clamp(1, 64).next_power_of_two();
    let most = max_keys.div_ceil(shards) * shards + shards * limits;
    let keys = store.usage().keys;
    assert!(keys <= most, "{keys} keys where {most} may be");
}
