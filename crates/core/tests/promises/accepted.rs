//! The numbers that quotas accept, and the errors for others.

use proptest::prelude::*;
use tidegate_core::{
    FixedWindow, LeakyBucket, MAX_EXACT, MAX_SPAN, MAX_WINDOW, Micros, Quota, QuotaError, Rate,
    SlidingWindowCounter, SlidingWindowLog, TokenBucket,
};

use crate::traffic::{DAY, HOUR, MS, SECOND, cases};

const MILLION: u64 = 1_000_000;

#[test]
fn a_million_fits_into_every_documented_window() {
    let windows = [MS, SECOND, 59 * 60 * SECOND, HOUR, DAY, 31 * DAY];
    for window in windows {
        for limit in [1, MILLION] {
            FixedWindow::new(limit, window).unwrap();
            SlidingWindowLog::new(limit, window).unwrap();
            SlidingWindowCounter::new(limit, window).unwrap();
            let rate = Rate {
                count: limit,
                per: window,
            };
            for capacity in [1, limit] {
                TokenBucket::new(capacity, rate).unwrap();
                LeakyBucket::new(capacity, rate).unwrap();
            }
        }
    }
}

#[test]
fn zero_is_named() {
    let second = |count| Rate { count, per: SECOND };
    let zero = |what| Some(QuotaError::Zero(what));
    assert_eq!(
        TokenBucket::new(0, second(1)).err(),
        Some(QuotaError::Zero("capacity"))
    );
    assert_eq!(LeakyBucket::new(0, second(1)).err(), zero("queue"));
    assert_eq!(TokenBucket::new(1, second(0)).err(), zero("rate"));
    assert_eq!(
        LeakyBucket::new(1, Rate { count: 1, per: 0 }).err(),
        zero("rate")
    );
    assert_eq!(FixedWindow::new(0, SECOND).err(), zero("limit"));
    assert_eq!(FixedWindow::new(1, 0).err(), zero("window"));
    assert_eq!(SlidingWindowLog::new(0, SECOND).err(), zero("limit"));
    assert_eq!(SlidingWindowLog::new(1, 0).err(), zero("window"));
    assert_eq!(SlidingWindowCounter::new(0, SECOND).err(), zero("limit"));
    assert_eq!(SlidingWindowCounter::new(1, 0).err(), zero("window"));
}

#[test]
fn windows_end_at_a_month_and_long_ones_are_whole_milliseconds() {
    let long = Some(QuotaError::LongWindow);
    for window in [MAX_WINDOW + 1, MAX_WINDOW + MS, u64::MAX] {
        assert_eq!(FixedWindow::new(1, window).err(), long);
        assert_eq!(SlidingWindowLog::new(1, window).err(), long);
        assert_eq!(SlidingWindowCounter::new(1, window).err(), long);
        let rate = Rate {
            count: 1,
            per: window,
        };
        assert_eq!(TokenBucket::new(1, rate).err(), long);
        assert_eq!(LeakyBucket::new(1, rate).err(), long);
    }
    let counter = |window| SlidingWindowCounter::new(1, window).err();
    assert_eq!(counter(HOUR - 1), None);
    assert_eq!(counter(HOUR + 1), Some(QuotaError::UnevenWindow));
    assert_eq!(counter(MAX_WINDOW - 1), Some(QuotaError::UnevenWindow));
    assert_eq!(counter(HOUR + MS), None);
}

#[test]
fn errors_say_what_to_do() {
    let large = |largest| QuotaError::TooLarge {
        what: "queue",
        largest,
    };
    let texts = [
        (QuotaError::Zero("limit"), "`limit` must be at least 1"),
        (QuotaError::LongWindow, "the longest window is 31d"),
        (
            QuotaError::UnevenWindow,
            "a window of 1h or more must be whole milliseconds",
        ),
        (
            large(7),
            "`queue` is too large here; the largest that fits is 7",
        ),
        (large(0), "no `queue` fits these numbers"),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn the_largest_limits_are_these() {
    let largest = |error: Option<QuotaError>| match error {
        Some(QuotaError::TooLarge {
            what: "limit",
            largest,
        }) => largest,
        other => panic!("{other:?}"),
    };
    let window = 31 * DAY;
    assert_eq!(largest(FixedWindow::new(u64::MAX, window).err()), MAX_SPAN);
    assert_eq!(
        largest(SlidingWindowLog::new(MILLION + 1, window).err()),
        MILLION
    );
    let counter = largest(SlidingWindowCounter::new(MAX_SPAN, window).err());
    assert_eq!(counter, MAX_EXACT / (2 * window / MS));
}

proptest! {
    #![proptest_config(cases(1_000))]

    /// An error for a number that is too large names the largest number. That number is accepted, and the next is not.
    #[test]
    fn what_is_too_large_names_the_largest_that_fits(
        number in number(), count in number(), per in span(),
    ) {
        let rate = Rate { count, per };
        is_largest(number, |n| TokenBucket::new(n, rate).err())?;
        is_largest(number, |n| LeakyBucket::new(n, rate).err())?;
        is_largest(number, |n| FixedWindow::new(n, per).err())?;
        is_largest(number, |n| SlidingWindowLog::new(n, per).err())?;
        is_largest(number, |n| SlidingWindowCounter::new(n, per).err())?;
    }

    /// An accepted rate is never faster than the wanted rate, and slower by less than a millionth. It stays exact.
    #[test]
    fn what_is_accepted_is_kept_closely_and_below_2_to_the_53(
        capacity in number(), count in number(), per in span(),
    ) {
        let rate = Rate { count, per };
        let bucket = TokenBucket::new(capacity, rate).or_else(|error| match error {
            QuotaError::TooLarge { largest, .. } => TokenBucket::new(largest, rate),
            other => Err(other),
        });
        let Ok(bucket) = bucket else { return Ok(()) };
        let [capacity, weight, pay, full] = bucket.meter().numbers().map(u128::from);
        let (asked, kept) = (pay * u128::from(per), weight * u128::from(count));
        prop_assert!(asked <= kept, "faster");
        prop_assert!((kept - asked) * u128::from(MILLION) < kept, "slower by a millionth");
        prop_assert!(capacity * weight + pay <= u128::from(MAX_EXACT));
        prop_assert!(full * pay <= capacity * weight + pay);
    }

    /// Another capacity changes only this number. A bucket is full again after the same time.
    #[test]
    fn another_capacity_keeps_the_pace(
        limit in 1..1_000_000_u64, per in 1..86_400_000_000_u64, count in 1..100_000_u64, other in 1..1_000_000_u64,
    ) {
        let rate = Rate { count, per };
        let quotas = [
            TokenBucket::new(limit, rate).map(Quota::from),
            LeakyBucket::new(limit, rate).map(Quota::from),
            FixedWindow::new(limit, per).map(Quota::from),
            SlidingWindowLog::new(limit, per).map(Quota::from),
            SlidingWindowCounter::new(limit, per).map(Quota::from),
        ];
        for quota in quotas.into_iter().flatten() {
            let Ok(changed) = quota.with_capacity(other) else {
                continue;
            };
            prop_assert_eq!(changed.kind(), quota.kind());
            prop_assert_eq!(changed.capacity(), other);
            prop_assert_eq!(quota.with_capacity(quota.capacity()).map(|it| it.capacity()), Ok(limit));
            if let (Quota::TokenBucket(from), Quota::TokenBucket(to)) = (quota, changed) {
                let [from, to] = [from, to].map(|it| it.meter().numbers()[3]);
                // A rate that no configuration can contain is rounded by less than one part in a thousand.
                prop_assert!(to.abs_diff(from) <= from / 990 + 2, "{from} {to}");
            }
        }
    }

    /// All shares together admit no more than the whole, unless the whole has less than one unit for each. No share is empty.
    #[test]
    fn shares_are_no_more_than_the_whole(
        limit in 1..1_000_000_u64, per in 1..86_400_000_000_u64, parts in 1..5_000_u64, count in 1..100_000_u64,
    ) {
        let rate = Rate { count, per };
        let quotas = [
            TokenBucket::new(limit, rate).map(Quota::from),
            LeakyBucket::new(limit, rate).map(Quota::from),
            FixedWindow::new(limit, per).map(Quota::from),
            SlidingWindowLog::new(limit, per).map(Quota::from),
            SlidingWindowCounter::new(limit, per).map(Quota::from),
        ];
        for quota in quotas.into_iter().flatten() {
            let share = quota.divided(parts);
            prop_assert_eq!(share.kind(), quota.kind());
            prop_assert_eq!(share.capacity(), (quota.capacity() / parts).max(1));
            prop_assert_eq!(quota.divided(1).capacity(), quota.capacity());
            if let (Quota::TokenBucket(whole), Quota::TokenBucket(share)) = (quota, share) {
                let [_, weight, pay, _] = whole.meter().numbers().map(u128::from);
                let [_, small_weight, small_pay, _] = share.meter().numbers().map(u128::from);
                // pay / weight is the rate. The rate of a share, times `parts`, is at most the rate of the whole.
                let together = u128::from(parts) * small_pay * weight;
                let whole = pay * small_weight;
                prop_assert!(together <= whole || small_pay == 1 && small_weight == u128::from(MAX_WINDOW));
            }
        }
    }
}

fn is_largest(number: u64, error: impl Fn(u64) -> Option<QuotaError>) -> Result<(), TestCaseError> {
    let Some(first) = error(number) else {
        return Ok(());
    };
    let QuotaError::TooLarge { largest, .. } = first else {
        prop_assert_eq!(first, QuotaError::UnevenWindow);
        return Ok(());
    };
    prop_assert!(largest < number, "{number} is refused, and {largest} named");
    prop_assert_eq!(error(largest + 1), Some(first), "{} fits too", largest + 1);
    if largest > 0 {
        prop_assert_eq!(error(largest), None, "{} does not fit", largest);
    }
    Ok(())
}

/// Any number except zero. Small and large numbers are equally likely.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0..64_u32, any::<u64>()).prop_map(|(bits, number)| 1.max(number >> bits)),
        Just(MILLION),
        Just(999_983),
        Just(MAX_SPAN),
        Just(MAX_SPAN + 1),
        Just(MAX_EXACT),
        Just(u64::MAX),
    ]
}

fn span() -> impl Strategy<Value = Micros> {
    prop_oneof![
        1..=MAX_WINDOW,
        (1..=31 * 86_400_000_u64).prop_map(|ms| ms * MS),
        Just(1),
        Just(SECOND),
        Just(MAX_WINDOW),
    ]
}
