//! The memory store's bound: how many keys it holds, and who makes place for whom.

use std::net::Ipv4Addr;
use std::sync::{Arc, mpsc};
use std::thread;

use tidegate_core::Quota;
use tidegate_store::{Charge, Crowded, Decision, Limit, MAX_CHARGES, MemoryStore, Origin, Outcome};

use crate::support::{
    DAY, HOUR, PATIENCE, Random, SECOND, charge, every_algorithm, limit, now, quiet_window,
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

/// A store of 64 shards with 1,024 keys each, of which 16 are a limit's floor.
fn many() -> MemoryStore {
    MemoryStore::new(64 * 1_024)
}

/// As [`charge`], with keys that are as different as hashes: the shards have about the same number of them.
fn spread(limit: &Limit, client: u64) -> Charge<'_> {
    charge(limit, client.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1)
}

/// Asserts that each of these clients has a budget of its own under a limit of 5.
fn have_own_budgets(store: &MemoryStore, limit: &Limit, clients: std::ops::Range<u64>) {
    let shared = store.usage().shared;
    for client in clients {
        for left in (0..5).rev() {
            let decision = decided(store, &[spread(limit, client)], Outcome::Admitted);
            assert_eq!(decision.verdicts[0].unwrap().remaining, left, "{client}");
        }
        decided(store, &[spread(limit, client)], Outcome::Refused);
    }
    assert_eq!(store.usage().shared, shared);
}

#[test]
fn a_limit_with_keys_without_end_leaves_a_floor_to_each_other() {
    let store = many();
    let flooded = limit("flooded", windowed(1));
    flood(&store, &flooded, 0..200_000, None);
    assert!(store.usage().shared > 0);
    for nth in 0..10 {
        let other = limit(&format!("other-{nth}"), windowed(5));
        have_own_budgets(&store, &other, 0..200);
    }
}

/// An address that makes keys of values that are not verified.
fn origin(nth: u32) -> Option<Origin> {
    Some(Origin::of(Ipv4Addr::from(0xc633_6400 + nth).into()))
}

fn flood(
    store: &MemoryStore,
    limit: &Limit,
    clients: std::ops::Range<u64>,
    origin: Option<Origin>,
) {
    for client in clients {
        let charge = Charge {
            origin,
            ..spread(limit, client)
        };
        store.decide(&[charge]);
    }
}

#[test]
fn an_address_cannot_take_the_places_of_others_by_values_that_are_not_verified() {
    let store = many();
    let (flooded, login) = (limit("flooded", windowed(1)), limit("login", windowed(5)));
    flood(&store, &flooded, 0..200_000, origin(0));
    let keys = store.usage().keys;
    assert!((12_000..20_000).contains(&keys), "{keys} keys of 65,536");
    let crowded = store.crowded();
    assert_eq!(crowded.len(), 1);
    assert_eq!(&*crowded[0].limit, "flooded");
    assert_eq!(crowded[0].crowded, Crowded::Address);
    assert_eq!(crowded[0].decisions, store.usage().shared);
    // Other addresses have keys of their own under the same limit, and so have all under another one.
    let shared = store.usage().shared;
    flood(&store, &flooded, 1_000_000..1_001_000, origin(1));
    assert_eq!(store.usage().shared, shared);
    assert_eq!(store.usage().keys, keys + 1_000);
    have_own_budgets(&store, &login, 0..10_000);
    // What is over is free again.
    store.sweep_at(now() + 40 * DAY);
    assert_eq!(store.usage().keys, 0);
    flood(&store, &flooded, 0..10_000, origin(0));
    assert_eq!(store.usage().shared, shared);
}

#[test]
fn any_number_of_addresses_leaves_half_of_all_places_to_verified_keys() {
    let store = many();
    let (flooded, login) = (limit("flooded", windowed(1)), limit("login", windowed(5)));
    for address in 0..1_000 {
        let first = u64::from(address) * 1_000;
        flood(&store, &flooded, first..first + 200, origin(address));
    }
    let keys = store.usage().keys;
    assert!((29_000..36_000).contains(&keys), "{keys} keys of 65,536");
    assert_eq!(store.crowded()[0].crowded, Crowded::Unverified);
    have_own_budgets(&store, &login, 0..12_000);
}

#[test]
fn the_limit_with_most_keys_makes_place_first() {
    let store = many();
    let (large, small) = (limit("large", windowed(10)), limit("small", windowed(10)));
    // None has used half.
    flood(&store, &large, 0..100_000, None);
    let evicted = store.usage().evicted;
    flood(&store, &small, 0..10_000, None);
    // Beyond its floor each key took the place of another one.
    let evicted = store.usage().evicted - evicted;
    assert!((8_000..10_000).contains(&evicted), "{evicted}");
    let is_known = |client: &u64| {
        let decision = decided(&store, &[spread(&small, *client)], Outcome::Admitted);
        decision.verdicts[0].unwrap().remaining == 8
    };
    let known = (0..10_000).filter(is_known).count();
    assert!(known > 9_900, "{known}");
}

/// The keys of the flood are used up, and only those of the other limit might leave.
#[test]
fn a_flood_replaces_no_key_of_a_limit_with_fewer() {
    let store = many();
    let (small, flooded) = (limit("small", windowed(10)), limit("flooded", windowed(1)));
    flood(&store, &small, 0..500, None);
    flood(&store, &flooded, 0..200_000, None);
    assert_eq!(store.usage().evicted, 0);
    for client in 0..500 {
        let decision = decided(&store, &[spread(&small, client)], Outcome::Admitted);
        assert_eq!(decision.verdicts[0].unwrap().remaining, 8, "{client}");
    }
}

#[test]
fn more_limits_share_the_floors() {
    let store = many();
    let flooded = limit("flooded", windowed(1));
    store.divide(60);
    flood(&store, &flooded, 0..200_000, None);
    // Of 1,024 places 256 are divided among 64 limits.
    let own_and_shared = 1_024 - 256 + 4 + 1;
    assert_eq!(store.usage().keys, 64 * own_and_shared);
    store.divide(1);
    let other = limit("other", windowed(5));
    have_own_budgets(&store, &other, 0..200);
    assert_eq!(store.crowded()[0].crowded, Crowded::Table);
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
