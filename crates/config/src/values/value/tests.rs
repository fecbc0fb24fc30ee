use std::net::SocketAddr;
use std::time::Duration;

use http::HeaderName;
use tidegate_core::{Algorithm as _, Rate, TokenBucket};

use super::number::{Connections, Count};
use super::word::LimitName;
use crate::tests::{bad, good};

#[test]
fn durations_have_a_unit() {
    for (text, millis) in [
        ("25ms", 25),
        ("60s", 60_000),
        ("15m", 900_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("31d", 31 * 86_400_000),
    ] {
        assert_eq!(good::<Duration>(text), Duration::from_millis(millis));
    }
    bad::<Duration>(&[
        "",
        "60",
        "s",
        "0s",
        "0ms",
        "-1s",
        "+1s",
        "1.5s",
        "1 s",
        "1S",
        "1s ",
        "1us",
        "1mo",
        "32d",
        "99999999999999999999d",
        "18446744073709551615d",
        "1h30m",
        "１s",
    ]);
}

#[test]
fn rates_are_so_many_per_so_long() {
    for (text, count, per) in [
        ("10/s", 10, 1_000_000),
        ("600/m", 600, 60_000_000),
        ("1000/h", 1_000, 3_600_000_000),
        ("5000/d", 5_000, 86_400_000_000),
        ("100/15m", 100, 900_000_000),
        ("1/1ms", 1, 1_000),
        ("1/ms", 1, 1_000),
        ("1000000000/31d", 1_000_000_000, 31 * 86_400_000_000),
    ] {
        assert_eq!(good::<Rate>(text), Rate { count, per });
    }
    bad::<Rate>(&[
        "",
        "10",
        "/s",
        "10/",
        "10 / s",
        "0/s",
        "10/0s",
        "-1/s",
        "1/2/s",
        "1.5/s",
        "1000000001/s",
        "99999999999999999999/s",
        "1/32d",
        "1/99999999999999999999d",
        "10/week",
    ]);
}

/// The text of a quota can be pasted into a configuration, and gives the same quota again.
#[test]
fn rates_are_written_so_that_they_can_be_read() {
    let mut random = 7_u64;
    let mut below = |bound: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % bound
    };
    let again = |quota: &TokenBucket| {
        let written = quota.written();
        let (_, rate) = written.split_once(", refill ").unwrap();
        let again = TokenBucket::new(quota.capacity(), good::<Rate>(rate)).unwrap();
        let pace = |quota: &TokenBucket| {
            let [_, weight, pay, _] = quota.meter().numbers().map(|number| number as f64);
            pay / weight
        };
        let differs = (pace(&again) / pace(quota) - 1.0).abs();
        assert!(differs < 3e-6, "{quota:?}: {written}");
        (again == *quota, written)
    };
    let of = |quota: &TokenBucket| {
        let (is_same, written) = again(quota);
        assert!(is_same, "{quota:?}: {written}");
        written
    };
    let (mut changed, mut close) = (0, 0);
    for _ in 0..50_000 {
        let most = [10, 1_000, 100_000, 1_000_000_000][below(4) as usize];
        let capacity = 1 + below(most);
        let unit = ["ms", "s", "m", "h", "d"][below(5) as usize];
        let rate = match below(3) {
            0 => format!("{}/{unit}", 1 + below(most)),
            1 => format!("{}/{}{unit}", 1 + below(most), 1 + below(31)),
            _ => format!("1/{}ms", 1 + below(90_000_000)),
        };
        let Ok(bucket) = TokenBucket::new(capacity, good(&rate)) else {
            continue;
        };
        // For a few odd and large quotas, the text is not exact: the rates differ by less than three millionths.
        close += u32::from(!again(&bucket).0);
        for _ in 0..4 {
            let other = 1 + below(4 * capacity);
            if let Ok(bucket) = bucket.with_capacity(other) {
                of(&bucket);
                changed += 1;
            }
        }
    }
    assert!(changed > 50_000 && close < 1_000, "{changed} {close}");
    // The text has the form in which people would write the rate.
    for (capacity, rate, other, expected) in [
        (20, "5/s", 4, "capacity 4, refill 1/s"),
        (7, "1/3h", 10, "capacity 10, refill 1/126m"),
        (5, "1000000000/ms", 4, "capacity 4, refill 800000000/ms"),
        (12_345, "77777/d", 16_000, "capacity 16000, refill 70/m"),
        (9, "100/15m", 9, "capacity 9, refill 400/h"),
    ] {
        let bucket = TokenBucket::new(capacity, good(rate)).unwrap();
        let changed = bucket.with_capacity(other);
        let written = changed.map(|bucket| of(&bucket));
        assert_eq!(written.as_deref(), Ok(expected));
    }
}

#[test]
fn counts_are_digits_and_too_many_is_the_most_there_is() {
    assert_eq!(good::<Count>("7").0, 7);
    assert_eq!(good::<Count>("99999999999999999999").0, u64::MAX);
    bad::<Count>(&[
        "", "-1", "+1", "1e3", "1_000", "0x10", "1.0", " 1", "ten", "007",
    ]);
}

#[test]
fn addresses_have_a_port() {
    assert_eq!(good::<SocketAddr>("[::1]:80").port(), 80);
    bad::<SocketAddr>(&[
        "8080",
        ":8080",
        "localhost:80",
        "127.0.0.1",
        "127.0.0.1:65536",
    ]);
}

#[test]
fn words_and_names() {
    assert_eq!(good::<HeaderName>("X-API-Key"), "x-api-key");
    bad::<HeaderName>(&["", "X API"]);
    good::<LimitName>("ride-burst.v2_x");
    bad::<LimitName>(&["", "a b", "a/b", "a:b", "{a}", "é", &"a".repeat(129)]);
    assert!(!good::<bool>("false"));
    bad::<bool>(&["yes", "True", ""]);
    bad::<Connections>(&["0", "1000001"]);
}
