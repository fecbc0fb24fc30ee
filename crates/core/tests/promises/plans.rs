//! Quotas of several plans that decide about one key, in any order. A quota that a reload changes, and changes back, is such a plan
//! as well.
//!
//! - A key's promise is that of the most generous plan that asked: the largest capacity and the largest rate, or the largest
//!   limit of a window.
//! - Nobody is refused under a plan for longer than the plan's own period after the last charge that was admitted.
//! - A more generous plan finds at most as much more owed than by its own law as the other plan's capacity.
//! - What a cost made beyond the capacity is paid off under every plan.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate_core::{Micros, Quota, Rate, TokenBucket};

use crate::buckets::{Exact, quota as bucket_of};
use crate::traffic::{
    DAY, Key, SECOND, bucket, cases, counter, few, fixed, log, period, start, window,
};

/// One request: under which plan, of what share of its capacity, and how long after the last one. It may be given back at once, as
/// another limit refused it.
#[derive(Clone, Copy, Debug)]
struct Op {
    plan: usize,
    share: u64,
    step: Step,
    is_refused_elsewhere: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    None,
    // In thousandths of the time that one unit takes under a plan.
    Units(usize, u64),
    // In thousandths of a plan's period.
    Periods(usize, u64),
    // Until a request of 1 fits under the plan that asks.
    Retry,
}

fn ops(count: usize) -> impl Strategy<Value = Vec<Op>> {
    let plan = || 0..3_usize;
    let step = prop_oneof![
        3 => Just(Step::None),
        3 => (plan(), 1..3_000_u64).prop_map(|(plan, share)| Step::Units(plan, share)),
        1 => (plan(), 1..1_500_u64).prop_map(|(plan, share)| Step::Periods(plan, share)),
        2 => Just(Step::Retry),
    ];
    let share = prop_oneof![3 => Just(0), 2 => 0..=1_000_u64, 1 => Just(1_000)];
    let op = (plan(), share, step, 0..8_u8).prop_map(|(plan, share, step, refused)| Op {
        plan,
        share,
        step,
        is_refused_elsewhere: refused == 0,
    });
    vec(op, 1..=count)
}

/// Numbers of a bucket: any that fit, or some that are close to others'.
fn numbers() -> impl Strategy<Value = (u64, Rate)> {
    let close = (1..=200_u64, 1..=200_u64).prop_map(|(capacity, count)| {
        let per = 60 * SECOND;
        (capacity, Rate { count, per })
    });
    prop_oneof![3 => close, 1 => bucket()]
}

/// Lets time pass until `op`, and says what it costs.
fn wait(key: &mut Key, plans: &[Quota], op: Op) -> (Quota, u64) {
    let plan = |plan: usize| plans[plan % plans.len()];
    let quota = plan(op.plan);
    let step = match op.step {
        Step::None => 0,
        Step::Units(of, share) => {
            (period(&plan(of)) / plan(of).capacity()).saturating_mul(share) / 1_000
        }
        Step::Periods(of, share) => period(&plan(of)) / 1_000 * share,
        Step::Retry => quota.check(&mut key.state.clone(), 1, key.now).retry_after,
    };
    key.now += step.min(60 * DAY);
    let cost = (quota.capacity() * op.share / 1_000).clamp(1, quota.capacity());
    (quota, cost)
}

/// One request, and whether it was admitted and is not given back.
fn request(key: &mut Key, quota: &Quota, cost: u64, op: Op) -> bool {
    let mut verdict = quota.check(&mut key.state, cost, key.now);
    if !verdict.allowed {
        return false;
    }
    quota.commit(&mut key.state, cost, key.now, &mut verdict);
    if op.is_refused_elsewhere {
        let receipt = key.now + verdict.reset;
        quota.give_back(&mut key.state, cost, receipt, key.now);
    }
    !op.is_refused_elsewhere
}

/// Whether the first rate is the greater one.
fn is_faster(one: Rate, other: Rate) -> bool {
    u128::from(one.count) * u128::from(other.per) > u128::from(other.count) * u128::from(one.per)
}

proptest! {
    #![proptest_config(cases(1_024))]

    /// In any span, whatever plan asks when, at most the largest capacity, and what the fastest plan refills.
    #[test]
    fn a_bucket_of_several_plans_admits_what_the_most_generous_one_promises(
        numbers in vec(numbers(), 2..=3), leaky in any::<bool>(), now in start(), ops in ops(60),
    ) {
        let plans: Vec<_> = numbers.iter().map(|(capacity, rate)| bucket_of(leaky, *capacity, *rate)).collect();
        let mut key = Key::new(plans[0], now);
        let (mut capacity, mut rate) = (0, Rate { count: 1, per: u64::MAX });
        let mut admitted: Vec<(Micros, u64)> = Vec::new();
        for op in ops {
            let (quota, cost) = wait(&mut key, &plans, op);
            let asked = numbers[op.plan % plans.len()];
            capacity = capacity.max(asked.0);
            if is_faster(asked.1, rate) {
                rate = asked.1;
            }
            if !request(&mut key, &quota, cost, op) {
                continue;
            }
            admitted.push((key.now, cost));
            let mut sum = 0;
            for (at, cost) in admitted.iter().rev() {
                sum += u128::from(*cost);
                let refilled = u128::from(rate.count) * u128::from(key.now - at);
                let over = sum.saturating_sub(u128::from(capacity));
                prop_assert!(
                    over * u128::from(rate.per) <= refilled,
                    "{sum} of {capacity} in {} us", key.now - at
                );
            }
        }
    }

    /// Who is refused is admitted when told, and after the plan's own period at the latest; remaining and reset are true.
    #[test]
    fn nobody_is_locked_out_for_longer_than_the_own_period(
        numbers in vec(numbers(), 2..=3), leaky in any::<bool>(), now in start(), ops in ops(40),
    ) {
        let plans: Vec<_> = numbers.iter().map(|(capacity, rate)| bucket_of(leaky, *capacity, *rate)).collect();
        let mut key = Key::new(plans[0], now);
        let mut charged = now;
        for op in ops {
            let (quota, cost) = wait(&mut key, &plans, op);
            let ask = |key: &Key, cost, now| quota.check(&mut key.state.clone(), cost, now);
            let before = ask(&key, cost, key.now);
            if before.allowed {
                let mut verdict = before;
                quota.commit(&mut key.state, cost, key.now, &mut verdict);
                charged = key.now;
                let after = ask(&key, 1, key.now);
                prop_assert_eq!((verdict.remaining, verdict.reset), (after.remaining, after.reset));
            } else {
                let at = key.now + before.retry_after;
                prop_assert!(!ask(&key, cost, at - 1).allowed && ask(&key, cost, at).allowed, "{before:?}");
            }
            for plan in &plans {
                let latest = charged.max(key.now) + period(plan) - (key.now - charged).min(period(plan));
                prop_assert!(plan.check(&mut key.state.clone(), plan.capacity(), latest).allowed);
                prop_assert!(plan.check(&mut key.state.clone(), 1, key.now).reset <= period(plan));
            }
        }
    }

    /// If one of two plans is larger in both numbers, it loses nothing to the other one but the other's capacity. What it refills
    /// is not lost while the other one asks.
    #[test]
    fn a_more_generous_plan_refills_while_another_one_asks(
        numbers in (numbers(), numbers()), now in start(), ops in ops(60),
    ) {
        let (one, other) = numbers;
        let rates = if is_faster(one.1, other.1) { [other.1, one.1] } else { [one.1, other.1] };
        let small = (one.0.min(other.0), rates[0]);
        let large = (one.0.max(other.0), rates[1]);
        // Where both fit these rates.
        prop_assume!(small.0 < 1_000 && TokenBucket::new(large.0, large.1).is_ok());
        prop_assume!(TokenBucket::new(small.0, small.1).is_ok());
        let plans = [small, large].map(|(capacity, rate)| bucket_of(false, capacity, rate));
        // A debt that takes longer than 142 years to be paid off is not known exactly.
        prop_assume!(period(&plans[1]) < 25 * 365 * DAY);
        let mut key = Key::new(plans[0], now);
        let mut slower = Exact::slower(large.1, now);
        for op in ops {
            let (quota, cost) = wait(&mut key, &plans, op);
            slower.pass(key.now);
            let found = plans[1].check(&mut key.state.clone(), 1, key.now).remaining;
            prop_assert!(
                u128::from(found + small.0 + 1) >= slower.left(large.0),
                "{found} are left, where {} should be", slower.left(large.0)
            );
            // What is given back comes back but for a microsecond's refill.
            let is_allowed = quota.check(&mut key.state.clone(), cost, key.now).allowed;
            request(&mut key, &quota, cost, op);
            if is_allowed {
                slower.charge(cost);
            }
        }
    }

    /// What a cost made beyond a capacity is paid off before anything is admitted, also if the plans take turns.
    #[test]
    fn no_plan_forgives_what_is_beyond_the_capacity(
        numbers in vec(numbers(), 2..=3), now in start(), ops in ops(20), more in 1..=20_u64,
    ) {
        let plans: Vec<_> = numbers.iter().map(|(capacity, rate)| bucket_of(false, *capacity, *rate)).collect();
        let mut key = Key::new(plans[0], now);
        for op in ops {
            let (quota, cost) = wait(&mut key, &plans, op);
            request(&mut key, &quota, cost, op);
        }
        let teller = plans[0];
        let owes = teller.capacity() * more;
        prop_assume!((more + 1) * period(&teller) < 25 * 365 * DAY);
        let room = teller.check(&mut key.state.clone(), 1, key.now).remaining;
        teller.charge(&mut key.state, room + owes, key.now);
        for (plan, (capacity, rate)) in plans.iter().zip(&numbers) {
            // Where it stays exact.
            let pays = u128::from(owes) * u128::from(rate.per) / u128::from(rate.count);
            if owes > 900 * capacity || pays > u128::from(20 * 365 * DAY) {
                continue;
            }
            let verdict = plan.check(&mut key.state.clone(), 1, key.now);
            prop_assert!(u128::from(verdict.reset) >= pays, "{verdict:?}, not {pays}");
            prop_assert!(!verdict.allowed || owes < *capacity, "{verdict:?}");
        }
    }

    /// A window counts what all plans admitted, and each admits what its limit leaves of that.
    #[test]
    fn a_window_of_several_plans_admits_the_largest_limit(
        limits in vec(few(), 2..=3), kind in 0..3_usize, window in window(), now in start(), ops in ops(60),
    ) {
        let plan = |limit: &u64| -> Quota {
            match kind {
                0 => fixed(*limit, window).into(),
                1 => log(*limit, window).into(),
                _ => counter(*limit, window).into(),
            }
        };
        let plans: Vec<_> = limits.iter().map(plan).collect();
        let largest = *limits.iter().max().unwrap();
        let mut key = Key::new(plans[0], now);
        let mut admitted: Vec<(Micros, u64)> = Vec::new();
        for op in ops {
            let (quota, cost) = wait(&mut key, &plans, op);
            // What the largest plan has left, each has, less by the difference of the limits.
            let left = |limit: u64| plan(&limit).check(&mut key.state.clone(), 1, key.now).remaining;
            prop_assert_eq!(left(quota.capacity()), quota.capacity().saturating_sub(largest - left(largest)));
            if request(&mut key, &quota, cost, op) {
                admitted.push((key.now, cost));
            }
            let counts = |at: Micros| match kind {
                0 => at / window == key.now / window,
                1 => at + window > key.now,
                // The estimate is never less than what the current window has admitted.
                _ => at / period(&quota) == key.now / period(&quota),
            };
            let sum: u64 = admitted.iter().filter(|(at, _)| counts(*at)).map(|(_, cost)| cost).sum();
            prop_assert!(sum <= largest, "{sum} of {largest}");
        }
    }
}

/// One plain request now and then while gold clients use all they can: what gold promises, and no more.
#[test]
fn a_plain_request_now_and_then_forgives_nothing_to_gold() {
    let rate = |count| Rate {
        count,
        per: 60 * SECOND,
    };
    let (plain, gold) = (
        bucket_of(false, 20, rate(20)),
        bucket_of(false, 200, rate(200)),
    );
    let mut key = Key::new(gold, 1_000 * DAY);
    let (mut by_gold, mut by_plain) = (0, 0);
    // 90 ticks of 0.1 s.
    for _ in 0..90 {
        for _ in 0..200 {
            by_gold += u64::from(key.request(1).allowed);
        }
        let mut verdict = plain.check(&mut key.state, 1, key.now);
        if verdict.allowed {
            plain.commit(&mut key.state, 1, key.now, &mut verdict);
            by_plain += 1;
        }
        key.now += SECOND / 10;
    }
    assert!(
        (225..=229).contains(&(by_gold + by_plain)),
        "{by_gold} + {by_plain}"
    );
    // A burst each minute, and a plain request before each: gold has nearly all of it, as it refills at its own rate.
    for _ in 0..10 {
        key.now += 55 * SECOND;
        let mut verdict = plain.check(&mut key.state, 1, key.now);
        assert!(verdict.allowed);
        plain.commit(&mut key.state, 1, key.now, &mut verdict);
        key.now += 5 * SECOND;
        let left = key.ask(1).remaining;
        assert!(left >= 180, "{left} are left for gold");
        assert!(key.request(left).allowed);
    }
}
