//! Quotas that change under keys that have state: state says what was used, so remaining = max(0, quota − used).

use proptest::prelude::*;
use tidegate_core::{LeakyBucket, Micros, Quota, Rate, TokenBucket};

use crate::traffic::{
    Key, bucket, cases, counter, few, fixed, log, most, period, start, traffic, window,
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
            // Whatever the new limit, a refusal's promise holds.
            if !after.allowed {
                let at = key.now + after.retry_after;
                prop_assert!(!quota(new).check(&mut key.state.clone(), 1, at - 1).allowed);
                prop_assert!(quota(new).check(&mut key.state.clone(), 1, at).allowed);
            }
        }
    }

    /// Right after a charge, whatever changes: within one token, never looser than what was used.
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
            // However much was used under the old numbers, the new ones lock nobody out for longer than their own.
            prop_assert!(after.reset <= period(&new));
            prop_assert!(new.check(&mut key.state.clone(), new.capacity(), key.now + period(&new)).allowed);
        }
    }

    /// At one rate, only the capacity changes, at any time. What was used and what was paid off since stay. A rate that does not
    /// fit exactly is rounded anew, by less than one token over a whole bucket.
    #[test]
    fn a_bucket_of_another_size_keeps_the_same_debt(
        capacities in (most(), most()), (least, rate) in bucket(), now in start(), ops in traffic(30),
    ) {
        let sizes = [capacities.0, capacities.1].map(|size| size.min(least));
        let [old, new] = sizes.map(|size| Quota::from(TokenBucket::new(size, rate).unwrap()));
        let mut key = Key::new(old, now);
        for op in ops {
            let (_, verdict) = key.meet(op);
            let left = sizes[1].saturating_sub(sizes[0] - verdict.remaining);
            let after = new.check(&mut key.state.clone(), 1, key.now).remaining;
            prop_assert!(after + 2 >= left, "{after} where {left} are left");
            // A debt beyond a smaller capacity was cut to it, and is paid off from there.
            if sizes[1] >= sizes[0] {
                prop_assert!(after <= left + 1, "{after} where {left} are left");
            }
        }
    }

    /// Changing to other numbers and back, with nothing charged between, is as if nothing had happened.
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

/// A state that belongs to another algorithm is as good as none.
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
