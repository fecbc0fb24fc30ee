//! The buckets against exact arithmetic. Their rate is never faster than the exact rate, and slower by less than one part in a million.

use proptest::prelude::*;
use tidegate_core::{LeakyBucket, Micros, Quota, Rate, TokenBucket};

use crate::traffic::{Key, Op, bucket, cases, start, traffic};

/// The number of parts of a rate, of which a slower rate lacks one.
const MILLION: u128 = 1_000_000;

proptest! {
    #![proptest_config(cases(256))]

    /// Admission, remaining, reset and retry-after are those of the exact rate, or lie between the exact rate and a rate that is slower by
    /// a millionth.
    #[test]
    fn a_bucket_is_exact_or_stricter_by_less_than_a_millionth(
        (capacity, rate) in bucket(), now in start(), ops in traffic(60), leaky in any::<bool>(),
    ) {
        let mut key = Key::new(quota(leaky, capacity, rate), now);
        let mut exact = Exact::new(rate, now);
        let mut slower = Exact::slower(rate, now);
        for op in ops {
            let cost = key.wait(op);
            exact.pass(key.now);
            slower.pass(key.now);
            let before = key.ask(cost);
            prop_assert!(!before.allowed || exact.fits(cost, capacity), "looser than exact: {before:?}");
            prop_assert!(before.allowed || !slower.fits(cost, capacity), "too strict: {before:?}");
            let (least, most) = (slower.left(capacity), exact.left(capacity));
            prop_assert!((least..=most).contains(&u128::from(before.remaining)), "{before:?}");
            let (soonest, latest) = (exact.paid(), slower.paid());
            prop_assert!((soonest..=latest).contains(&u128::from(before.reset)), "{before:?}");
            let (soonest, latest) = (exact.room(cost, capacity), slower.room(cost, capacity));
            prop_assert!((soonest..=latest).contains(&u128::from(before.retry_after)), "{before:?}");
            let delay = if leaky && before.allowed { before.reset } else { 0 };
            prop_assert_eq!(before.delay, delay);

            let verdict = key.quota.check(&mut key.state, cost, key.now);
            prop_assert_eq!(verdict, before);
            if verdict.allowed {
                key.quota.commit(&mut key.state, cost, key.now, &mut { verdict });
                exact.charge(cost);
                slower.charge(cost);
            }
        }
    }

    /// The promise of the token bucket: at most C + n·t/P in any span t, without any tolerance.
    #[test]
    fn no_span_admits_more_than_the_bucket_and_what_it_refilled(
        (capacity, rate) in bucket(), now in start(), ops in traffic(60),
    ) {
        let admitted = admitted(&mut Key::new(quota(false, capacity, rate), now), ops);
        for (first, from) in admitted.iter().enumerate() {
            let mut sum = 0;
            for until in &admitted[first..] {
                sum += u128::from(until.cost);
                let refilled = u128::from(rate.count) * u128::from(until.at - from.at);
                let over = sum.saturating_sub(u128::from(capacity));
                prop_assert!(over * u128::from(rate.per) <= refilled, "{from:?} to {until:?}: {sum}");
            }
        }
    }

    /// The promise of the leaky bucket. Releases are at least P/n apart for each unit between them, to the microsecond, and without errors
    /// that add up. At most Q units wait for their release.
    #[test]
    fn releases_keep_their_distance_and_few_enough_wait(
        (queue, drain) in bucket(), now in start(), ops in traffic(60),
    ) {
        let admitted = admitted(&mut Key::new(quota(true, queue, drain), now), ops);
        for (first, from) in admitted.iter().enumerate() {
            let mut units = 0;
            for until in &admitted[first..] {
                let apart = u128::from(until.release + 1) - u128::from(from.release);
                prop_assert!(
                    units == 0 || apart * u128::from(drain.count) > units * u128::from(drain.per),
                    "{units} units from {from:?} to {until:?}"
                );
                units += u128::from(until.cost);
            }
            let waiting = admitted[..=first].iter().filter(|a| a.release > from.at);
            prop_assert!(waiting.map(|a| a.cost).sum::<u64>() <= queue);
        }
    }
}

/// If a rate does not fit exactly, a full bucket is paid off later by less than a millionth of its time.
#[test]
fn rates_that_do_not_fit_are_slower_by_less_than_a_millionth() {
    let window = 31 * 86_400 * 1_000_000;
    for count in [999_983, 999_979, 1_000_003, 7, 1] {
        for capacity in [1, 999_983, 1_000_000] {
            let rate = Rate { count, per: window };
            let Ok(bucket) = TokenBucket::new(capacity, rate) else {
                assert!(count < 10, "{capacity} at {count} per 31 d");
                continue;
            };
            let mut key = Key::new(bucket.into(), window);
            let mut verdict = key.ask(capacity);
            key.quota
                .commit(&mut key.state, capacity, key.now, &mut verdict);
            let exact = u128::from(capacity) * u128::from(window);
            let taken = u128::from(verdict.reset) * u128::from(count);
            assert!(taken >= exact, "{capacity} at {count} per 31 d is too fast");
            let slack = exact / MILLION + u128::from(count);
            assert!(
                taken < exact + slack,
                "{capacity} at {count} per 31 d is too slow"
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Admitted {
    at: Micros,
    release: Micros,
    cost: u64,
}

fn admitted(key: &mut Key, ops: Vec<Op>) -> Vec<Admitted> {
    let mut admitted = Vec::new();
    for op in ops {
        let (cost, verdict) = key.meet(op);
        if verdict.allowed {
            let (at, release) = (key.now, key.now + verdict.delay);
            admitted.push(Admitted { at, release, cost });
        }
    }
    admitted
}

pub(crate) fn quota(leaky: bool, capacity: u64, rate: Rate) -> Quota {
    if leaky {
        LeakyBucket::new(capacity, rate).unwrap().into()
    } else {
        TokenBucket::new(capacity, rate).unwrap().into()
    }
}

/// A debt in exact arithmetic. A unit weighs P, and n is paid off each microsecond.
pub(crate) struct Exact {
    owed: u128,
    at: Micros,
    weight: u128,
    pay: u128,
}

impl Exact {
    pub(crate) fn new(rate: Rate, at: Micros) -> Self {
        let (weight, pay) = (u128::from(rate.per), u128::from(rate.count));
        Self {
            owed: 0,
            at,
            weight,
            pay,
        }
    }

    pub(crate) fn slower(rate: Rate, at: Micros) -> Self {
        let exact = Self::new(rate, at);
        Self {
            weight: exact.weight * MILLION,
            pay: exact.pay * (MILLION - 1),
            ..exact
        }
    }

    pub(crate) fn pass(&mut self, now: Micros) {
        let paid = u128::from(now - self.at) * self.pay;
        self.owed = self.owed.saturating_sub(paid);
        self.at = now;
    }

    pub(crate) fn charge(&mut self, cost: u64) {
        self.owed += u128::from(cost) * self.weight;
    }

    fn missing(&self, cost: u64, capacity: u64) -> u128 {
        let after = self.owed + u128::from(cost) * self.weight;
        after.saturating_sub(u128::from(capacity) * self.weight)
    }

    pub(crate) fn fits(&self, cost: u64, capacity: u64) -> bool {
        self.missing(cost, capacity) == 0
    }

    /// The whole units that are left.
    pub(crate) fn left(&self, capacity: u64) -> u128 {
        u128::from(capacity).saturating_sub(self.owed.div_ceil(self.weight))
    }

    /// The time until all is paid off.
    pub(crate) fn paid(&self) -> u128 {
        self.owed.div_ceil(self.pay)
    }

    /// The time until there is room for `cost`.
    pub(crate) fn room(&self, cost: u64, capacity: u64) -> u128 {
        self.missing(cost, capacity).div_ceil(self.pay)
    }
}
