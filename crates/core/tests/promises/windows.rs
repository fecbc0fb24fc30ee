//! The window algorithms against models that keep all requests, and the most units that fit into one window.

use proptest::prelude::*;
use tidegate_core::{Micros, Quota, State, Verdict, WindowPair};

use crate::traffic::{Key, cases, counter, few, fixed, log, most, period, start, traffic, window};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn a_fixed_window_admits_its_limit_per_window_and_twice_that_in_any_span_of_one(
        limit in most(), window in window(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(fixed(limit, window).into(), now);
        let mut history = History::default();
        for op in ops {
            let cost = key.wait(op);
            let start = key.now - key.now % window;
            let remaining = limit - history.sum(start, key.now);
            let end = start + window - key.now;
            history.expect(&mut key, cost, remaining, end, |fits| if fits { 0 } else { end })?;
        }
        for at in &history.0 {
            let start = at.0 - at.0 % window;
            prop_assert!(history.sum(start, start + window - 1) <= limit);
            prop_assert!(history.sum(at.0, at.0 + window - 1) <= 2 * limit);
        }
    }

    #[test]
    fn a_log_admits_its_limit_in_any_window(
        limit in few(), window in window(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(log(limit, window).into(), now);
        let mut history = History::default();
        for op in ops {
            let cost = key.wait(op);
            let used = history.sum(key.now - window + 1, key.now);
            let live = history.0.iter().filter(|(at, _)| at + window > key.now);
            let last = live.clone().map(|(at, _)| at + window - key.now).max();
            // The first entry after whose expiry the cost fits.
            let mut gone = 0;
            let enough = live.clone().find(|(_, cost_of)| {
                gone += cost_of;
                used - gone + cost <= limit
            });
            let leaves = enough.map_or(0, |(at, _)| at + window - key.now);
            history.expect(&mut key, cost, limit - used, last.unwrap_or(0), |fits| if fits { 0 } else { leaves })?;
        }
        for (at, _) in &history.0 {
            prop_assert!(history.sum(at - window + 1, *at) <= limit);
        }
    }

    #[test]
    fn a_counter_never_estimates_more_than_its_limit_nor_lets_twice_of_it_through(
        limit in most(), window in window(), now in start(), ops in traffic(60),
    ) {
        let mut key = Key::new(counter(limit, window).into(), now);
        let window = period(&key.quota);
        let mut history = History::default();
        for op in ops {
            let cost = key.wait(op);
            let before = history.estimate(key.now, window);
            let verdict = key.ask(cost);
            // Elapsed time counts in steps, so the remaining units follow the last step. They are never more than the exact time allows.
            let room = |estimate: Estimate| (u128::from(limit) * estimate.1).saturating_sub(estimate.0) / estimate.1;
            let floor = history.estimate(key.now - key.now % window % coarse(window), window);
            prop_assert!(u128::from(verdict.remaining) <= room(before), "looser than the formula: {verdict:?}");
            prop_assert_eq!(u128::from(verdict.remaining), room(floor));
            prop_assert_eq!(verdict.allowed, cost <= verdict.remaining);
            let start = key.now - key.now % window;
            let last = history.0.iter().map(|(at, _)| at - at % window + 2 * window).max();
            let end = last.filter(|end| *end > start).map_or(0, |end| end - key.now);
            prop_assert_eq!(verdict.reset, end);
            history.charge(&mut key, cost, verdict)?;
            let (used, parts) = history.estimate(key.now, window);
            prop_assert!(used <= u128::from(limit) * parts, "the estimate is beyond the limit");
        }
        for (at, _) in &history.0 {
            let worst = history.sum(at - window + 1, *at);
            prop_assert!(worst < 2 * limit, "{worst} in the window that ends at {at}");
        }
    }

    /// The formula is solved exactly even for counts as large as the number of steps of the window. Random traffic seldom has such counts.
    #[test]
    fn a_counter_solves_its_formula_for_any_two_counts(
        window in 1..1_000_u64, current in 0..1_500_u64, previous in 0..1_500_u64, cost in 1..1_500_u64,
        (free, short) in (0..4_u64, 0..2_u64), elapsed in 0..1_000_u64,
    ) {
        // With the current count, the cost just fits, or just does not fit.
        let limit = (current + cost + free).saturating_sub(short * current).max(cost);
        let quota = Quota::from(counter(limit, window));
        let start = 1_000_000 * window;
        let pair = WindowPair { start, current, previous };
        let (state, now) = (State::SlidingWindowCounter(pair), start + elapsed % window);
        let ask_at = |at| quota.check(&mut state.clone(), cost, at);
        let wait = ask_at(now).retry_after;
        prop_assert!(ask_at(now + wait).allowed);
        prop_assert!(wait == 0 || !ask_at(now + wait - 1).allowed);
    }
}

/// The most units that a log may have, in one request and again as soon as they have expired.
#[test]
fn a_log_of_a_million_is_counted_to_the_last() {
    let mut key = Key::new(log(1_000_000, 1_000).into(), 1_000_000);
    for _ in 0..2 {
        let mut verdict = key.ask(999_999);
        assert!(verdict.allowed);
        key.quota
            .commit(&mut key.state, 999_999, key.now, &mut verdict);
        assert_eq!((verdict.remaining, verdict.reset), (1, 1_000));
        let refused = key.ask(2);
        assert_eq!((refused.allowed, refused.retry_after), (false, 1_000));
        assert!(key.ask(1).allowed);
        key.now += 1_000;
    }
}

/// An estimate as a fraction: the numerator, and the weight of one unit.
type Estimate = (u128, u128);

/// All admitted requests: the time and the cost of each.
#[derive(Default)]
struct History(Vec<(Micros, u64)>);

impl History {
    /// The units admitted from `first` to `last`, both included.
    fn sum(&self, first: Micros, last: Micros) -> u64 {
        let within = self.0.iter().filter(|(at, _)| (first..=last).contains(at));
        within.map(|(_, cost)| cost).sum()
    }

    /// The counter's formula: current + previous × (window − elapsed)/window, as a fraction of `window`.
    fn estimate(&self, now: Micros, window: Micros) -> Estimate {
        let start = now - now % window;
        let current = u128::from(self.sum(start, start + window - 1));
        let previous = u128::from(self.sum(start - window, start - 1));
        let (left, window) = (u128::from(start + window - now), u128::from(window));
        (current * window + previous * left, window)
    }

    /// Checks that the verdict agrees with the model. Keeps an admitted request.
    fn expect(
        &mut self,
        key: &mut Key,
        cost: u64,
        remaining: u64,
        reset: Micros,
        retry_after: impl FnOnce(bool) -> Micros,
    ) -> Result<(), TestCaseError> {
        let allowed = cost <= remaining;
        let expected = Verdict {
            allowed,
            remaining,
            reset,
            retry_after: retry_after(allowed),
            delay: 0,
            settling: false,
        };
        let verdict = key.ask(cost);
        prop_assert_eq!(verdict, expected);
        self.charge(key, cost, verdict)
    }

    fn charge(&mut self, key: &mut Key, cost: u64, verdict: Verdict) -> Result<(), TestCaseError> {
        prop_assert_eq!(key.quota.check(&mut key.state, cost, key.now), verdict);
        if verdict.allowed {
            key.quota
                .commit(&mut key.state, cost, key.now, &mut { verdict });
            self.0.push((key.now, cost));
        }
        Ok(())
    }
}

/// The step of a counter's elapsed time, in us.
fn coarse(window: Micros) -> Micros {
    if window < 3_600_000_000 { 1 } else { 1_000 }
}
