use crate::{FixedWindow, SlidingWindowCounter};

use super::*;

const WINDOW: Micros = 1_000_000;
/// When some window starts.
const AT: Micros = 5_000 * WINDOW;

fn quotas(limit: u64) -> [Quota; 2] {
    [
        FixedWindow::new(limit, WINDOW).unwrap().into(),
        SlidingWindowCounter::new(limit, WINDOW).unwrap().into(),
    ]
}

fn counts(current: i64, previous: i64) -> TallyCounts {
    TallyCounts { current, previous }
}

fn totals(start: Micros, all: TallyCounts, own: TallyCounts) -> TallyTotals {
    TallyTotals { start, all, own }
}

fn left(tally: &Tally, quota: &Quota, now: Micros) -> u64 {
    let verdict = tally.clone().charge(quota, quota.capacity(), now);
    if verdict.allowed {
        quota.capacity()
    } else {
        verdict.remaining
    }
}

#[test]
fn own_counts_and_the_others_share_the_limit() {
    for quota in &quotas(10) {
        let mut tally = Tally::of(quota, AT).unwrap();
        assert!(tally.charge(quota, 4, AT).allowed);
        assert!(!tally.is_told(quota));
        tally.learn(quota, totals(AT, counts(7, 0), counts(4, 0)), AT);
        assert!(tally.is_told(quota));
        let verdict = tally.charge(quota, 2, AT + 1);
        assert_eq!((verdict.allowed, verdict.remaining), (true, 1));
        assert!(!tally.charge(quota, 2, AT + 1).allowed);
        assert_eq!(tally.own(), counts(6, 0));
        tally.uncount(2, AT);
        tally.uncount(1, AT - WINDOW);
        assert_eq!(left(&tally, quota, AT), 3);
        // A reset: Redis has nothing, and what this one had counted before is not its own any more.
        tally.learn(quota, totals(AT, counts(0, 0), counts(4, 0)), AT);
        assert_eq!(left(&tally, quota, AT), 10);
        tally.charge(quota, 3, AT);
        tally.forget();
        assert_eq!(left(&tally, quota, AT), 10);
    }
}

#[test]
fn windows_turn_on_either_side_first() {
    for (is_sliding, quota) in [false, true].into_iter().zip(&quotas(10)) {
        let mut tally = Tally::of(quota, AT).unwrap();
        tally.charge(quota, 4, AT);
        tally.learn(quota, totals(AT, counts(8, 0), counts(4, 0)), AT);
        tally.charge(quota, 1, AT + 1);
        // This one turns while a call is under way, whose answer is of the window before.
        let next = AT + WINDOW;
        tally.charge(quota, 1, next);
        assert_eq!((tally.start(), tally.own()), (next, counts(1, 5)));
        tally.learn(quota, totals(AT, counts(9, 0), counts(5, 0)), next);
        let before = if is_sliding { 9 } else { 0 };
        assert_eq!(left(&tally, quota, next), 10 - 1 - before.min(9));
        assert!(!tally.is_told(quota));
        // A charge of the window before is given back there, and one of long ago nowhere.
        tally.uncount(1, AT);
        tally.uncount(1, AT - WINDOW);
        assert_eq!(tally.own(), counts(1, 4));
        // Redis turns first.
        let last = next + WINDOW;
        tally.learn(quota, totals(last, counts(6, 1), counts(0, 1)), last);
        assert_eq!((tally.start(), tally.own()), (last, counts(0, 1)));
        let before = if is_sliding { 1 } else { 0 };
        assert_eq!(left(&tally, quota, last), 4 - before);
        // Long after, nothing counts.
        assert!(tally.matters(quota, last + WINDOW - 1));
        assert!(!tally.matters(quota, last + 2 * WINDOW));
        assert_eq!(left(&tally, quota, last + 5 * WINDOW), 10);
    }
}

#[test]
fn a_clock_that_steps_back_takes_nothing_away_and_hands_nothing_out() {
    for quota in &quotas(10) {
        for back in [1, WINDOW / 2, WINDOW, 7 * WINDOW] {
            let mut tally = Tally::of(quota, AT).unwrap();
            tally.charge(quota, 4, AT);
            tally.learn(quota, totals(AT, counts(8, 0), counts(4, 0)), AT);
            let now = AT - back;
            let verdict = tally.charge(quota, 3, now);
            assert_eq!((verdict.allowed, verdict.remaining), (false, 2), "{back}");
            assert!(verdict.retry_after <= 3 * WINDOW);
            assert!(tally.start() <= now + WINDOW);
            assert_eq!(tally.own(), counts(4, 0));
        }
    }
}

#[test]
fn a_share_is_of_what_was_left() {
    for quota in &quotas(40) {
        let mut tally = Tally::of(quota, AT).unwrap();
        tally.charge(quota, 8, AT);
        tally.learn(quota, totals(AT, counts(20, 0), counts(8, 0)), AT);
        tally.charge(quota, 2, AT);
        // Of 20 that are left a quarter is 5, of which 2 are used.
        let verdict = tally.charge_share(quota, 4, 1, AT);
        assert_eq!((verdict.allowed, verdict.remaining), (true, 2));
        assert!(!tally.charge_share(quota, 4, 3, AT).allowed);
        assert!(tally.charge_share(quota, 4, 2, AT).allowed);
        assert_eq!(tally.own(), counts(13, 0));
        // Whatever is left counts when nothing else does.
        tally.count(100, AT);
        assert_eq!(tally.own(), counts(113, 0));
        // A cost that a share can never hold counts as all of it.
        let mut fresh = Tally::of(quota, AT).unwrap();
        assert!(fresh.charge_share(quota, 40, 7, AT).allowed);
        assert!(!fresh.charge_share(quota, 40, 1, AT).allowed);
        assert_eq!(fresh.own(), counts(7, 0));
    }
}

#[test]
fn what_is_beyond_the_limit_is_counted_once() {
    let [fixed, sliding] = &quotas(10);
    for quota in [fixed, sliding] {
        let mut tally = Tally::of(quota, AT).unwrap();
        let mut learn = |current, previous, at: Micros| {
            let start = at - at % WINDOW;
            let totals = totals(start, counts(current, previous), TallyCounts::default());
            tally.learn(quota, totals, at)
        };
        assert_eq!(learn(10, 0, AT), (0, 0));
        assert_eq!(learn(13, 0, AT), (3, 3));
        assert_eq!(learn(13, 0, AT + 1), (3, 0));
        assert_eq!(learn(14, 0, AT + 2), (4, 1));
        let half = AT + WINDOW + WINDOW / 2;
        let expected = if quota == sliding { (2, 2) } else { (0, 0) };
        assert_eq!(learn(5, 14, half), expected);
        let expected = if quota == sliding { (4, 2) } else { (0, 0) };
        assert_eq!(learn(7, 14, half), expected);
        assert_eq!(learn(17, 14, half + WINDOW / 2 - 1).0, 7);
    }
}

/// 353 of 1,000 are used when the limit becomes 100.
#[test]
fn what_a_larger_limit_allowed_is_not_beyond_a_smaller_one() {
    for (large, small) in quotas(1_000).iter().zip(&quotas(100)) {
        let mut tally = Tally::of(large, AT).unwrap();
        let mut learn = |quota, current, own| {
            let totals = totals(AT, counts(current, 0), counts(own, 0));
            tally.learn(quota, totals, AT)
        };
        assert_eq!(learn(large, 353, 20), (0, 0));
        assert_eq!(learn(small, 353, 20).1, 0);
        assert_eq!(learn(small, 355, 20), (255, 2));
        // A gateway that starts hears of all that was counted before.
        let mut fresh = Tally::of(small, AT).unwrap();
        let totals = totals(AT, counts(353, 0), counts(1, 0));
        assert_eq!(fresh.learn(small, totals, AT), (1, 1));
    }
}

#[test]
fn other_algorithms_have_no_tally() {
    let rate = crate::Rate {
        count: 1,
        per: WINDOW,
    };
    let quota = crate::TokenBucket::new(1, rate).unwrap().into();
    assert!(Tally::of(&quota, AT).is_none());
}

/// Its counts are the other process's now, and what is left stays the same; what it had not told is its own.
#[test]
fn what_was_told_under_another_id_is_counted_once() {
    for quota in &quotas(20) {
        let mut tally = Tally::of(quota, AT).unwrap();
        assert!(tally.charge(quota, 4, AT).allowed);
        tally.learn(quota, totals(AT, counts(7, 0), counts(4, 0)), AT);
        assert!(tally.charge(quota, 2, AT).allowed);
        assert_eq!(left(&tally, quota, AT), 11);
        assert!(tally.leave_told());
        assert_eq!(left(&tally, quota, AT), 11);
        assert_eq!(tally.own(), counts(2, 0));
        // Under the new ID it has told these two, and the seven of before are others'.
        tally.learn(quota, totals(AT, counts(9, 0), counts(2, 0)), AT);
        assert_eq!(left(&tally, quota, AT), 11);
        assert!(tally.is_told(quota));
        let mut fresh = Tally::of(quota, AT).unwrap();
        assert!(!fresh.leave_told());
    }
}
