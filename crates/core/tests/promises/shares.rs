//! The share of a member in a shared bucket: its laws for single decisions, and the division of the bucket under load.

use std::collections::HashMap;

use proptest::prelude::*;
use tidegate_core::{
    Budget, FairShare, Micros, Quota, Rate, State, TokenBucket, Verdict, WindowPair, decide,
};

const SECOND: Micros = 1_000_000;
const START: Micros = 1_700_000_000 * SECOND;

fn bucket(capacity: u64, count: u64) -> Quota {
    let rate = Rate { count, per: SECOND };
    TokenBucket::new(capacity, rate).unwrap().into()
}

fn share(shared: &Quota, weight: u64) -> Quota {
    FairShare::of(shared, weight).unwrap().into()
}

/// A shared bucket and the use of its members.
struct Shared {
    quota: Quota,
    state: State,
    members: HashMap<usize, (Quota, State)>,
}

impl Shared {
    fn new(quota: Quota) -> Self {
        Self {
            state: quota.fresh(),
            members: HashMap::new(),
            quota,
        }
    }

    /// Decides a request of a member: the verdicts of the bucket and of the member's share.
    fn ask(&mut self, member: usize, weight: u64, cost: u64, now: Micros) -> [Verdict; 2] {
        let entry = self.members.entry(member).or_insert_with(|| {
            let quota = share(&self.quota, weight);
            (quota, quota.fresh())
        });
        let mut budgets = [
            Budget::new(&self.quota, self.state.clone(), cost),
            Budget::new(&entry.0, entry.1.clone(), cost),
        ];
        let mut verdicts = [Verdict::default(); 2];
        let admitted = decide(&mut budgets, now, &mut verdicts);
        assert_eq!(admitted, verdicts.iter().all(|verdict| verdict.allowed));
        let [bucket, own] = budgets.map(|budget| budget.state);
        (self.state, entry.1) = (bucket, own);
        verdicts
    }
}

/// A load on a shared bucket: a member's weight, its requests a second, and whether the requests come evenly.
struct Load {
    weight: u64,
    rate: f64,
    is_even: bool,
    from: f64,
    until: f64,
}

const fn even(rate: f64) -> Load {
    Load {
        weight: 1,
        rate,
        is_even: true,
        from: 0.0,
        until: f64::MAX,
    }
}

/// Requests at random times.
const fn random(rate: f64) -> Load {
    Load {
        is_even: false,
        ..even(rate)
    }
}

/// The requests of a member after the first ten seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    asked: u64,
    admitted: u64,
}

impl Outcome {
    fn refused(&self) -> f64 {
        1.0 - self.admitted as f64 / self.asked.max(1) as f64
    }
}

/// The seconds that are counted, from the tenth on.
const COUNTED: f64 = 40.0;

/// Returns the outcome of each member.
fn run(quota: Quota, loads: &[Load], seed: u64) -> Vec<Outcome> {
    let mut state = seed;
    let mut chance = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut requests = Vec::new();
    for (member, load) in loads.iter().enumerate() {
        let mut at = load.from + chance() / load.rate;
        while at < load.until.min(10.0 + COUNTED) {
            requests.push(((at * 1e6) as Micros, member));
            at += match load.is_even {
                true => 1.0 / load.rate,
                false => -(1.0 - chance()).ln() / load.rate,
            };
        }
    }
    requests.sort_unstable();
    let mut shared = Shared::new(quota);
    let mut outcomes = vec![Outcome::default(); loads.len()];
    for (at, member) in requests {
        let [bucket, own] = shared.ask(member, loads[member].weight, 1, START + at);
        if at >= 10 * SECOND {
            outcomes[member].asked += 1;
            outcomes[member].admitted += u64::from(bucket.allowed && own.allowed);
        }
    }
    outcomes
}

/// The units per second that all members got.
fn total(outcomes: &[Outcome]) -> f64 {
    outcomes.iter().map(|it| it.admitted).sum::<u64>() as f64 / COUNTED
}

const SEEDS: std::ops::Range<u64> = 1..6;

#[test]
fn members_below_their_share_are_not_refused_beside_a_greedy_one() {
    for seed in SEEDS {
        for (rate, most) in [(2.0, 0.0), (3.0, 0.02)] {
            // With 31 members the share is 3.2 a second.
            let mut loads: Vec<Load> = (0..30).map(|_| even(rate)).collect();
            loads.push(random(1_000.0));
            let outcomes = run(bucket(100, 100), &loads, seed);
            for (member, outcome) in outcomes[..30].iter().enumerate() {
                assert!(outcome.refused() <= most, "{seed}: {member} {outcome:?}");
            }
            assert!(total(&outcomes) > 95.0, "{seed}: {}", total(&outcomes));
        }
    }
}

#[test]
fn one_member_gets_all_that_is_idle() {
    for seed in SEEDS {
        for quota in [bucket(100, 100), bucket(20, 100), bucket(400, 100)] {
            let outcomes = run(quota, &[random(1_000.0)], seed);
            assert!(total(&outcomes) > 95.0, "{seed}: {}", total(&outcomes));
        }
    }
}

#[test]
fn greedy_members_get_parts_by_weight() {
    for seed in SEEDS {
        let mut loads: Vec<Load> = [1_000.0, 300.0, 120.0].map(random).into();
        loads[0].weight = 4;
        let outcomes = run(bucket(100, 100), &loads, seed);
        let per_weight: Vec<f64> = outcomes
            .iter()
            .zip(&loads)
            .map(|(outcome, load)| outcome.admitted as f64 / load.weight as f64)
            .collect();
        let least = per_weight.iter().copied().fold(f64::MAX, f64::min);
        for part in &per_weight {
            assert!(*part < least * 1.1, "{seed}: {per_weight:?}");
        }
        assert!(total(&outcomes) > 95.0);
    }
}

#[test]
fn members_that_come_and_go_leave_no_trace() {
    for seed in SEEDS {
        let mut loads: Vec<Load> = (0..15).map(|_| even(2.0)).collect();
        loads.extend((0..15).map(|n| Load {
            from: 12.0 + f64::from(n),
            until: 22.0 + f64::from(n),
            ..even(2.0)
        }));
        loads.push(Load {
            from: 15.0,
            until: 35.0,
            ..random(1_000.0)
        });
        let outcomes = run(bucket(100, 100), &loads, seed);
        for (member, outcome) in outcomes[..30].iter().enumerate() {
            assert!(outcome.refused() <= 0.02, "{seed}: {member} {outcome:?}");
        }
    }
}

#[test]
fn more_members_than_units_share_them_evenly() {
    for seed in SEEDS {
        let loads: Vec<Load> = (0..1_000)
            .map(|n| random(if n == 0 { 500.0 } else { 1.0 }))
            .collect();
        let outcomes = run(bucket(100, 100), &loads, seed);
        assert!(total(&outcomes) > 95.0, "{seed}: {}", total(&outcomes));
        // A fair part is 4 units in these 40 seconds.
        assert!(outcomes[0].admitted < 80, "{seed}: {:?}", outcomes[0]);
    }
}

/// Also a bucket whose rate is no whole number of units in a window.
#[test]
fn each_bucket_has_a_share_that_refuses_for_no_longer_than_it_refills() {
    for capacity in [1, 2, 3, 10, 97] {
        for count in [1, 3, 7, 29, 58, 999] {
            for per in [SECOND, 7 * SECOND, 60 * SECOND] {
                let shared: Quota = TokenBucket::new(capacity, Rate { count, per })
                    .unwrap()
                    .into();
                let quota = share(&shared, 1);
                let Quota::FairShare(own) = quota else {
                    unreachable!()
                };
                let mut state = State::FairShare(pair(&own, 1_000, START));
                let refused = quota.check_within(&mut state, 1, START, Some(0));
                assert!(!refused.allowed);
                let longest = shared.period() + SECOND;
                assert!(refused.retry_after <= longest, "{shared:?} {refused:?}");
                assert!(
                    refused.retry_after <= refused.reset,
                    "{shared:?} {refused:?}"
                );
                let large = quota.check_within(&mut state, capacity, START, Some(0));
                assert!(large.retry_after <= refused.reset, "{shared:?} {large:?}");
            }
        }
    }
}

proptest! {
    /// While at least half of the bucket is left, no member is refused by its share.
    #[test]
    fn no_member_is_refused_while_half_is_left(
        capacity in 1..2_000_u64,
        refill in 1..2_000_u64,
        weight in 1..10_u64,
        used in any::<u32>(),
        cost in 1..2_000_u64,
        left in any::<u64>(),
        now in START..START + 100 * SECOND,
    ) {
        let quota = FairShare::of(&bucket(capacity, refill), weight).unwrap();
        let left = capacity.div_ceil(2) + left % (capacity - capacity.div_ceil(2) + 1);
        let mut state = State::FairShare(pair(&quota, used.into(), now));
        let verdict = Quota::from(quota).check_within(&mut state, cost.min(capacity), now, Some(left));
        prop_assert!(verdict.allowed);
    }

    /// A refused request is admitted at its retry-after if no other request comes, and was refused a little before.
    #[test]
    fn retry_after_is_when_the_cost_fits(
        capacity in 2..2_000_u64,
        refill in 1..2_000_u64,
        weight in 1..10_u64,
        used in 0..5_000_u64,
        cost in 1..2_000_u64,
        left in any::<u64>(),
        now in START..START + 100 * SECOND,
    ) {
        let shared = bucket(capacity, refill);
        let quota = Quota::from(FairShare::of(&shared, weight).unwrap());
        let Quota::FairShare(own) = quota else { unreachable!() };
        let (cost, left) = (cost.min(capacity), left % capacity.div_ceil(2));
        let mut state = State::FairShare(pair(&own, used, now));
        let refused = quota.check_within(&mut state, cost, now, Some(left));
        prop_assume!(!refused.allowed);
        let at = |wait: Micros, state: &mut State| {
            let refilled = (wait as u128 * u128::from(refill) / u128::from(SECOND)) as u64;
            quota.check_within(state, cost, now + wait, Some((left + refilled).min(capacity)))
        };
        let wait = refused.retry_after;
        // Both numbers of refilled units are rounded down, so they may differ by one unit, which takes this time.
        let unit = SECOND.div_ceil(refill);
        prop_assert!(at(wait + unit, &mut state.clone()).allowed);
        let slack = SECOND * capacity / refill / 1_000 + unit + 1;
        if wait > 2 * slack {
            prop_assert!(!at(wait - slack, &mut state.clone()).allowed);
        }
    }
}

/// Half of the used units are in the current window, and the others in the window before it.
fn pair(quota: &FairShare, used: u64, now: Micros) -> WindowPair {
    let window = Quota::from(*quota).period();
    WindowPair {
        start: now - now % window,
        current: used / 2,
        previous: used - used / 2,
    }
}
