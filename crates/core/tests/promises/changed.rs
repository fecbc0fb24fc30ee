//! Quotas that change while keys have a state. The state has the used units, so remaining = max(0, quota − used).

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{LeakyBucket, Micros, Quota, Rate, TokenBucket};

use crate::traffic::{
    Key, SECOND, bucket, cases, counter, few, fixed, log, most, request, start, traffic, window,
};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_window_keeps_its_count_under_a_new_limit(
        kind in 0..3_usize, (old, new) in (few(), few()), window in window(), now in start(), ops in traffic(30),
    ) {
        let quota = |limit: u64| windowed(kind, limit, window);
        let mut key = Key::new(quota(old), now);
        for op in ops {
            let (_, verdict) = key.meet(op);
            let used = old - verdict.remaining;
            let after = quota(new).check(&mut key.state.clone(), 1, key.now);
            prop_assert_eq!(after.remaining, new.saturating_sub(used));
            prop_assert_eq!(after.allowed, used < new);
            // For any new limit, a refusal ends exactly at its retry-after.
            if !after.allowed {
                let at = key.now + after.retry_after;
                prop_assert!(!quota(new).check(&mut key.state.clone(), 1, at - 1).allowed);
                prop_assert!(quota(new).check(&mut key.state.clone(), 1, at).allowed);
            }
        }
    }

    /// Right after a charge, new numbers keep the used units: never less, and at most one token more.
    #[test]
    fn a_bucket_keeps_its_debt_under_new_numbers(
        leaky in any::<bool>(), old in bucket(), new in bucket(), now in start(), ops in traffic(30),
    ) {
        let (old, new) = (bucket_of(leaky, old), bucket_of(leaky, new));
        let mut key = Key::new(old, now);
        for op in ops {
            let (_, verdict) = key.meet(op);
            if !verdict.allowed {
                continue;
            }
            let left = new.capacity().saturating_sub(old.capacity() - verdict.remaining);
            let after = new.check(&mut key.state.clone(), 1, key.now);
            prop_assert!(after.remaining <= left, "looser: {after:?} where {left} are left");
            prop_assert!(after.remaining + 1 >= left, "stricter: {after:?} where {left} are left");
            // A refusal lasts until enough is paid off at the new rate.
            let at = key.now + after.retry_after;
            prop_assert!(new.check(&mut key.state.clone(), 1, at).allowed);
            prop_assert!(after.allowed || !new.check(&mut key.state.clone(), 1, at - 1).allowed);
        }
    }

    /// Only the capacity changes, at any time. The used units and the units paid off since stay. A rate that does not fit exactly is
    /// rounded again, by less than one token over a whole bucket.
    #[test]
    fn a_bucket_of_another_size_keeps_the_same_debt(
        capacities in (most(), most()), (least, rate) in bucket(), now in start(), ops in traffic(30),
    ) {
        let sizes = [capacities.0, capacities.1].map(|size| size.min(least));
        // A debt is exact up to a thousand times the capacity.
        prop_assume!(sizes[0] < 900 * sizes[1]);
        let [old, new] = sizes.map(|size| Quota::from(TokenBucket::new(size, rate).unwrap()));
        let mut key = Key::new(old, now);
        for op in ops {
            let (_, verdict) = key.meet(op);
            let left = sizes[1].saturating_sub(sizes[0] - verdict.remaining);
            let after = new.check(&mut key.state.clone(), 1, key.now).remaining;
            prop_assert!((left.saturating_sub(2)..=left + 1).contains(&after), "{after} where {left} are left");
        }
    }

    /// A change to other numbers and back, without a charge between, has no effect.
    #[test]
    fn asking_under_other_numbers_changes_nothing(
        first in (most(), window()), other in most(), leaky in any::<bool>(), now in start(), ops in traffic(30),
    ) {
        let (limit, window) = first;
        let kinds = |limit: u64| [
            bucket_of(leaky, (limit, Rate { count: limit, per: window })),
            windowed(0, limit, window),
            windowed(2, limit, window),
        ];
        for (quota, other) in kinds(limit).into_iter().zip(kinds(other)) {
            let mut key = Key::new(quota, now);
            for op in &ops {
                key.meet(*op);
                let before = key.ask(1);
                other.check(&mut key.state, 1, key.now);
                prop_assert_eq!(key.ask(1), before);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(512))]

    /// While gateways are reloaded one after the other, they decide by two quotas. In any span, they admit at most the larger capacity and
    /// the refill of the faster rate.
    #[test]
    fn two_quotas_in_turns_admit_what_the_larger_numbers_promise(
        numbers in ((1..=200_u64, 1..=200_u64), (1..=200_u64, 1..=200_u64)), leaky in any::<bool>(), now in start(),
        ops in vec((any::<bool>(), 0..=1_000_u64, 0..3_000_000_u64), 1..60),
    ) {
        let minute = 60 * SECOND;
        let quotas = [numbers.0, numbers.1].map(|(capacity, count)| {
            bucket_of(leaky, (capacity, Rate { count, per: minute }))
        });
        let capacity = u128::from(numbers.0.0.max(numbers.1.0));
        let count = u128::from(numbers.0.1.max(numbers.1.1));
        let (mut key, mut admitted) = (Key::new(quotas[0], now), Vec::new());
        for (is_new, share, step) in ops {
            key.now += step;
            let quota = quotas[usize::from(is_new)];
            let cost = (quota.capacity() * share / 1_000).clamp(1, quota.capacity());
            if !request(&quota, &mut key.state, cost, key.now).allowed {
                continue;
            }
            admitted.push((key.now, u128::from(cost)));
            let mut sum = 0;
            for (at, cost) in admitted.iter().rev() {
                sum += cost;
                let refilled = count * u128::from(key.now - at);
                prop_assert!(sum.saturating_sub(capacity) * u128::from(minute) <= refilled, "{sum} of {capacity}");
            }
        }
    }
}

/// A state of another algorithm counts as no state.
#[test]
fn another_algorithm_starts_anew() {
    let rate = Rate {
        count: 10,
        per: 1_000_000,
    };
    let quotas: [Quota; 3] = [
        TokenBucket::new(10, rate).unwrap().into(),
        LeakyBucket::new(10, rate).unwrap().into(),
        fixed(10, 1_000_000).into(),
    ];
    for quota in quotas {
        for other in quotas.iter().filter(|other| **other != quota) {
            let mut key = Key::new(*other, 5_000_000);
            let mut verdict = key.ask(10);
            other.commit(&mut key.state, 10, key.now, &mut verdict);
            assert_eq!(quota.expires(&key.state), 0);
            assert_eq!(
                quota.check(&mut key.state, 1, key.now),
                Key::new(quota, key.now).ask(1)
            );
            assert_ne!(quota.kind(), other.kind());
        }
    }
}

fn windowed(kind: usize, limit: u64, window: Micros) -> Quota {
    match kind {
        0 => fixed(limit, window).into(),
        1 => log(limit, window).into(),
        _ => counter(limit, window).into(),
    }
}

fn bucket_of(leaky: bool, (capacity, rate): (u64, Rate)) -> Quota {
    if leaky {
        LeakyBucket::new(capacity, rate).unwrap().into()
    } else {
        TokenBucket::new(capacity, rate).unwrap().into()
    }
}
