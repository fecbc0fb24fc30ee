//! Clocks that step back. Keys get no additional units, lose no units, and are not refused for long.

use proptest::prelude::*;
use tidegate_core::{Micros, Quota, State};

use crate::traffic::{Key, cases, period, quota, request, start, traffic};

proptest! {
    #![proptest_config(cases(256))]

    /// If the clock is behind the last charge by at most a period, decisions and states are the same as at the time of that charge. A
    /// counter gives more weight to the previous window, as at that time.
    #[test]
    fn a_small_step_back_decides_as_at_the_last_charge(
        quota in quota(), now in start(), ops in traffic(40), steps in proptest::collection::vec(0..=1_000_u64, 40),
    ) {
        let mut key = Key::new(quota, now);
        let mut charged = None;
        for (op, step) in ops.into_iter().zip(steps) {
            let (_, verdict) = key.meet(op);
            if verdict.allowed {
                charged = Some(key.now);
            }
            let Some(last) = charged else { continue };
            let back = last.saturating_sub(
                (u128::from(period(&quota)) * u128::from(step) / 1_000) as Micros,
            );
            let (mut stepped, mut straight) = (key.state.clone(), key.state.clone());
            let asked = quota.check(&mut stepped, 1, back);
            prop_assert_eq!(&stepped, &key.state, "a check alone takes nothing away");
            let expected = quota.check(&mut straight, 1, last);
            prop_assert!(asked.remaining <= expected.remaining, "{asked:?}, then {expected:?}");
            if matches!(quota, Quota::SlidingWindowCounter(_)) && !asked.allowed {
                continue;
            }
            if !matches!(quota, Quota::SlidingWindowCounter(_)) {
                prop_assert_eq!(asked.remaining, expected.remaining);
                prop_assert_eq!(back + asked.reset, last + expected.reset);
            }
            prop_assert_eq!(asked.allowed, expected.allowed);
            request(&quota, &mut stepped, 1, back);
            request(&quota, &mut straight, 1, last);
            prop_assert_eq!(stepped, straight);
        }
    }

    /// However the clock goes back and forth, no more units are admitted than the quota has.
    #[test]
    fn a_clock_that_goes_to_and_fro_hands_nothing_out(
        quota in quota(), now in start(), costs in proptest::collection::vec(1..4_u64, 1..80),
    ) {
        let mut key = Key::new(quota, now);
        let mut sum = 0;
        for (index, cost) in costs.into_iter().enumerate() {
            let cost = cost.min(quota.capacity());
            let at = if index % 2 == 0 { now } else { now.saturating_sub(period(&quota)) };
            if request(&quota, &mut key.state, cost, at).allowed {
                sum += cost;
            }
        }
        prop_assert!(sum <= quota.capacity(), "{sum}");
    }

    /// A time stamp that is ahead by more than a period is moved to now, once. Used units stay used, and are free after a period.
    #[test]
    fn a_stamp_too_far_ahead_is_moved_and_what_was_used_is_kept(
        quota in quota(), now in start(), ops in traffic(40), ahead in 1..400 * 86_400 * 1_000_000_u64,
    ) {
        let mut key = Key::new(quota, now);
        for op in ops {
            key.meet(op);
        }
        let Some(stamp) = stamp(&key.state) else { return Ok(()) };
        let Some(now) = stamp.checked_sub(period(&quota) + ahead) else { return Ok(()) };

        let verdict = quota.check(&mut key.state, 1, now);
        prop_assert_eq!(verdict.remaining, quota.capacity().saturating_sub(used(&quota, &key.state, now)));
        let most = match quota {
            Quota::SlidingWindowCounter(_) => 2 * period(&quota),
            _ => period(&quota),
        };
        prop_assert!(verdict.reset <= most, "{verdict:?}");
        prop_assert!(verdict.retry_after <= most, "{verdict:?}");
        prop_assert_eq!(key.ask_at(1, now), verdict);
        prop_assert!(key.ask_at(quota.capacity(), now + most).allowed);
        prop_assert!(quota.expires(&key.state) <= now + most);
    }

    /// A time stamp that is ahead by at most one period is not moved, because the clock soon reaches it.
    #[test]
    fn a_stamp_a_period_ahead_is_left_alone(quota in quota(), now in start(), ops in traffic(40)) {
        let mut key = Key::new(quota, now);
        for op in ops {
            key.meet(op);
        }
        let Some(now) = stamp(&key.state).and_then(|stamp| stamp.checked_sub(period(&quota))) else {
            return Ok(());
        };
        let before = key.state.clone();
        quota.check(&mut key.state, 1, now);
        prop_assert_eq!(&key.state, &before);
        let moved = quota.check(&mut key.state, 1, now - 1);
        prop_assert_ne!(key.state, before);
        prop_assert!(moved.reset <= 2 * period(&quota));
    }
}

/// The newest time stamp in a state.
fn stamp(state: &State) -> Option<Micros> {
    match state {
        State::TokenBucket(debt) | State::LeakyBucket(debt) => {
            Some(debt.at).filter(|_| debt.owed > 0)
        }
        State::FixedWindow(window) | State::CalendarWindow(window) => {
            Some(window.start).filter(|_| window.count > 0)
        }
        State::SlidingWindowLog(stamps) => stamps.last(),
        // Places lapse. Other tests cover them.
        State::Concurrency(_) => None,
        State::SlidingWindowCounter(pair) | State::FairShare(pair) => {
            Some(pair.start).filter(|_| pair.current > 0)
        }
    }
}

/// The used units in a state, rounded up to whole units.
fn used(quota: &Quota, state: &State, now: Micros) -> u64 {
    match state {
        State::TokenBucket(debt) | State::LeakyBucket(debt) => debt.owed.div_ceil(debt.weight),
        State::FixedWindow(window) | State::CalendarWindow(window) => window.count,
        State::SlidingWindowLog(stamps) => stamps.all_units(),
        State::Concurrency(_) => 0,
        // A share has no capacity of its own (shares.rs).
        State::FairShare(_) => 0,
        State::SlidingWindowCounter(pair) => {
            let window = period(quota);
            let unit = if window < 3_600_000_000 { 1 } else { 1_000 };
            let left = u128::from((window / unit) - (now % window) / unit);
            let weighted = u128::from(pair.previous) * left;
            pair.current + weighted.div_ceil(u128::from(window / unit)) as u64
        }
    }
}
