use tidegate_core::{FixedWindow, LeakyBucket, Rate, SlidingWindowLog, TokenBucket};
use tidegate_store::OnFailure;

use super::*;

const SECOND: Micros = 1_000_000;

fn limit(name: &str, quota: impl Into<Quota>) -> Limit {
    Limit::new(name, quota, OnFailure::Local)
}

fn bucket(capacity: u64, count: u64, per: Micros) -> TokenBucket {
    TokenBucket::new(capacity, Rate { count, per }).unwrap()
}

fn allowed(remaining: u64, reset: Micros) -> Verdict {
    Verdict {
        allowed: true,
        remaining,
        reset,
        retry_after: 0,
        delay: 0,
        settling: false,
    }
}

/// Returns the two fields after writing over the upstream's fields.
fn written(theirs: [&[&str]; 2], limits: &[Limit], verdict: &Verdict) -> [String; 2] {
    let names = [RATELIMIT_POLICY, RATELIMIT];
    let mut headers = HeaderMap::new();
    for (name, lines) in names.iter().zip(theirs) {
        for line in lines {
            headers.append(name, line.parse().unwrap());
        }
    }
    write(&mut headers, limits.iter(), &limits[0], verdict);
    names.map(|name| {
        assert_eq!(headers.get_all(&name).iter().count(), 1);
        headers[&name].to_str().unwrap().to_owned()
    })
}

fn ours(limit: Limit, verdict: &Verdict) -> [String; 2] {
    written([&[], &[]], &[limit], verdict)
}

#[test]
fn every_limit_is_a_policy_and_the_tightest_says_what_is_left() {
    let burst = limit("burst", bucket(20, 10, SECOND));
    let daily = limit("daily", FixedWindow::new(5_000, 86_400 * SECOND).unwrap());
    let [policy, left] = written([&[], &[]], &[burst, daily], &allowed(15, 7 * SECOND));
    assert_eq!(policy, r#""burst";q=20;w=2, "daily";q=5000;w=86400"#);
    assert_eq!(left, r#""burst";r=15;t=2"#);
}

#[test]
fn windows_are_whole_seconds_rounded_up_and_a_shorter_one_is_not_told() {
    let policy = |quota: Quota| ours(limit("a", quota), &allowed(1, 1))[0].clone();
    let window = |micros| FixedWindow::new(7, micros).unwrap().into();
    assert_eq!(policy(window(SECOND)), r#""a";q=7;w=1"#);
    assert_eq!(policy(window(SECOND + 1_000)), r#""a";q=7;w=2"#);
    assert_eq!(policy(window(SECOND - 1_000)), r#""a";q=7"#);
    assert_eq!(policy(bucket(7, 100, SECOND).into()), r#""a";q=7"#);
    let rate = Rate {
        count: 2,
        per: SECOND,
    };
    let queue = LeakyBucket::new(7, rate).unwrap();
    assert_eq!(policy(queue.into()), r#""a";q=7;w=4"#);
}

/// An integer has 15 digits (RFC 9651, 3.3.1).
#[test]
fn numbers_are_no_longer_than_a_structured_field_allows() {
    let most = FixedWindow::new(1 << 52, SECOND).unwrap();
    let [policy, left] = ours(limit("a", most), &allowed((1 << 52) - 1, SECOND));
    assert_eq!(policy, r#""a";q=999999999999999;w=1"#);
    assert_eq!(left, r#""a";r=999999999999999;t=1"#);
}

#[test]
fn what_is_left_lasts_to_the_windows_end_or_at_the_buckets_pace() {
    let left = |quota: Quota, verdict: Verdict| ours(limit("a", quota), &verdict)[1].clone();
    let window = || FixedWindow::new(7, 60 * SECOND).unwrap().into();
    assert_eq!(
        left(window(), allowed(6, 41 * SECOND + 1)),
        r#""a";r=6;t=42"#
    );
    assert_eq!(left(window(), allowed(0, SECOND)), r#""a";r=0;t=1"#);
    let log = SlidingWindowLog::new(7, 60 * SECOND).unwrap();
    assert_eq!(left(log.into(), allowed(6, 60 * SECOND)), r#""a";r=6;t=60"#);
    let bucket = || bucket(20, 1, 10 * SECOND).into();
    for (remaining, seconds) in [(20, 200), (15, 150), (1, 10), (0, 10)] {
        let expected = format!("\"a\";r={remaining};t={seconds}");
        assert_eq!(left(bucket(), allowed(remaining, SECOND)), expected);
    }
    // After a refusal no units are left, even if a cheaper request would fit.
    for (retry_after, seconds) in [(1, 1), (SECOND, 1), (SECOND + 1, 2)] {
        let refused = Verdict {
            allowed: false,
            retry_after,
            ..allowed(3, 9 * SECOND)
        };
        let expected = format!("\"a\";r=0;t={seconds}");
        assert_eq!(left(bucket(), refused), expected);
        assert_eq!(left(window(), refused), expected);
    }
}

#[test]
fn an_upstreams_own_items_stay_and_ours_come_behind_them() {
    let own = || limit("own", FixedWindow::new(7, 60 * SECOND).unwrap());
    let theirs: [&[&str]; 2] = [
        &[r#""theirs";q=9;w=1"#, r#""more";q=3"#],
        &[r#""theirs";r=2;t=1;pk=:Zm9v:"#],
    ];
    let [policy, left] = written(theirs, &[own()], &allowed(6, 60 * SECOND));
    assert_eq!(policy, r#""theirs";q=9;w=1, "more";q=3, "own";q=7;w=60"#);
    assert_eq!(left, r#""theirs";r=2;t=1;pk=:Zm9v:, "own";r=6;t=60"#);
    let [policy, left] = written([&[""], &[" "]], &[own()], &allowed(6, 60 * SECOND));
    assert_eq!(
        (&*policy, &*left),
        (r#""own";q=7;w=60"#, r#""own";r=6;t=60"#)
    );
}
