//! What is asked, and what stands in Redis before: limits and states that are made up at random.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_core::{
    Block, CalendarWindow, Concurrency, Debt, FairShare, FixedWindow, Hold, HoldId, KeyHolds,
    LeakyBucket, MAX_EXACT, MAX_WINDOW, Quota, Rate, SlidingWindowCounter, SlidingWindowLog,
    Stamps, State, TokenBucket, WindowCount, WindowPair,
};
use tidegate_store::{Charge, Limit};
use tidegate_testkit::RedisConnection;

use super::{Kept, MIXED, SHARE};
use crate::support::{Random, even_calendar};

/// The algorithms of one request: one of them, or two to four at once. A share follows a bucket.
pub(super) fn kinds(algorithm: usize, random: &mut Random) -> Vec<usize> {
    if algorithm == SHARE {
        return vec![random.pick(&[0, 1]), SHARE];
    }
    if algorithm < MIXED {
        return vec![algorithm];
    }
    (0..random.between(2, 4))
        .map(|_| random.next() as usize % MIXED)
        .collect()
}

/// A quota that is allowed; buckets get a rate of their own, at the edges more often than not.
pub(super) fn quota(kind: usize, most: u64, window: u64, random: &mut Random) -> Quota {
    let rate = Rate {
        count: random.pick(&[most, 1.max(most / 3), 7, 999_983]),
        per: window,
    };
    // A capacity that takes centuries to pay off is refused; what is paid off in one span always fits.
    let bucket = |rate: Rate| {
        let slow = most / rate.count > 1_000;
        if slow {
            Rate {
                count: most,
                ..rate
            }
        } else {
            rate
        }
    };
    match kind {
        0 => TokenBucket::new(most, bucket(rate)).unwrap().into(),
        1 => LeakyBucket::new(most, bucket(rate)).unwrap().into(),
        2 => FixedWindow::new(most, window).unwrap().into(),
        // A long log costs what it holds; its own limits are tried by the other tests.
        3 => SlidingWindowLog::new(most.min(500), window).unwrap().into(),
        4 => SlidingWindowCounter::new(most, window).unwrap().into(),
        6 => Concurrency::new(most.min(500), window).unwrap().into(),
        SHARE => {
            // All quotas of a key have one window: that of a bucket of a thousand.
            let rate = Rate {
                count: 1_000,
                per: window.min(MAX_WINDOW / 2),
            };
            let shared = TokenBucket::new(1_000, rate).unwrap().into();
            let weight = random.pick(&[1, 1, 2, 7, 1_000]);
            let share = Quota::from(FairShare::of(&shared, weight).unwrap());
            share.with_capacity(most).unwrap()
        }
        _ => CalendarWindow::new(most, even_calendar(window))
            .unwrap()
            .into(),
    }
}

/// Whether it only counts, and whether it blocks: more often than not neither.
pub(super) fn ways(limit: Limit, window: u64, random: &mut Random) -> Limit {
    let limit = match random.between(0, 3) {
        0 => limit.observed(),
        _ => limit,
    };
    let limit = match random.between(0, 3) {
        0 if limit.lease().is_none() => limit.reserving(window / 3 + 1),
        _ => limit,
    };
    let span = random.pick(&[1, window / 2, 3 * window]);
    match random.between(0, 4) {
        0 => limit.blocking(Block {
            span,
            extend: false,
        }),
        1 => limit.blocking(Block { span, extend: true }),
        _ => limit,
    }
}

/// Makes up a state, writes it where the script will look for it, and gives it back.
pub(super) async fn plant(
    planter: &mut RedisConnection,
    charge: &Charge<'_>,
    window: u64,
    random: &mut Random,
) -> Kept {
    let key = charge.redis_key("tidegate");
    let quota = charge.limit.quota();
    let most = quota.capacity();
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros() as u64;
    // From two windows ago to three ahead: current, past, ahead within a period, and a clock that stepped back.
    let around = |random: &mut Random, now: u64| now - 2 * window + random.between(0, 5 * window);
    let aligned = |at: u64| at - at % window;
    // Now and then as much as a cost can be that is known afterwards.
    let used = |random: &mut Random| {
        let any = random.between(0, 2 * most);
        let bits = random.between(1, 52);
        let far = random.between(0, 1 << bits);
        random.pick(&[0, 1, most / 2, most - 1, most, any, any, far])
    };
    let (state, words) = match quota {
        Quota::TokenBucket(_) | Quota::LeakyBucket(_) => {
            let weight = random.pick(&[1, 7, 1_000_000, 9_007_199_254]);
            let most_owed = MAX_EXACT - 1_000_000;
            let owed = used(random).saturating_mul(weight).min(most_owed);
            let owed = owed.saturating_sub(random.between(0, weight));
            let at = around(random, now);
            let debt = Debt { owed, at, weight };
            let state = match quota {
                Quota::TokenBucket(_) => State::TokenBucket(debt),
                _ => State::LeakyBucket(debt),
            };
            // An earlier version wrote one number more, or five.
            let more = random.pick(&["", "", " 7", " 7 900 3 1000000 0"]);
            (state, vec![format!("{owed} {at} {weight}{more}")])
        }
        Quota::FixedWindow(_) => {
            let (start, count) = (aligned(around(random, now)), used(random));
            let state = State::FixedWindow(WindowCount { start, count });
            (state, vec![format!("{start} {count}")])
        }
        Quota::Concurrency(_) => (State::Concurrency(()), Vec::new()),
        Quota::CalendarWindow(_) => {
            let (start, count) = (aligned(around(random, now)), used(random));
            let state = State::CalendarWindow(WindowCount { start, count });
            (state, vec![format!("{start} {count}")])
        }
        Quota::SlidingWindowCounter(_) | Quota::FairShare(_) => {
            let window = quota.period();
            let at = around(random, now);
            let start = at - at % window;
            let (current, previous) = (used(random), used(random));
            let pair = WindowPair {
                start,
                current,
                previous,
            };
            let text = format!("{start} {current} {previous}");
            let state = match quota {
                Quota::FairShare(_) => State::FairShare(pair),
                _ => State::SlidingWindowCounter(pair),
            };
            (state, vec![text])
        }
        Quota::SlidingWindowLog(_) => {
            let length = used(random).min(600);
            let mut stamps: Vec<u64> = (0..length).map(|_| around(random, now)).collect();
            stamps.sort_unstable();
            // Half of them of requests that cost 1 each, as those of the first release all are.
            let dearest = random.pick(&[1, 4]);
            let mut extra = 0;
            let (mut entries, mut words) = (Vec::new(), Vec::new());
            for stamp in stamps {
                let units = random.between(1, dearest);
                extra += units - 1;
                entries.push((stamp, units));
                words.push(match extra {
                    0 => stamp.to_string(),
                    _ => format!("{stamp} {units} {extra}"),
                });
            }
            let stamps = Stamps::from_iter(entries);
            (State::SlidingWindowLog(stamps), words)
        }
    };
    let block_key = format!("{key}:block");
    let held_key = format!("{key}:held");
    let keys = ["DEL", &key, &block_key, &held_key];
    planter.command(&keys).await.unwrap();
    let mut blocked_until = 0;
    if charge.limit.block().is_some() && random.between(0, 2) == 0 {
        blocked_until = around(random, now);
        let words = ["SET", &block_key, &blocked_until.to_string()];
        planter.command(&words).await.unwrap();
    }
    let command = match quota {
        Quota::SlidingWindowLog(_) => "RPUSH",
        _ => "SET",
    };
    let mut holds = KeyHolds::default();
    if charge.limit.lease().is_some() && random.between(0, 2) > 0 {
        let mut words = vec!["ZADD".to_owned(), held_key];
        let few = random.between(0, 2 * most.min(4));
        let many = used(random).min(600);
        for nth in 0..random.pick(&[few, many]) {
            // Of any gateway and plan.
            let id = HoldId((random.next() >> 16 << 16) + nth + 1);
            let units = random.pick(&[1, 1, 1, 3]);
            let lease = random.pick(&[1, window, window / 2 + 1, 2 * window]);
            let lapse = around(random, now);
            holds.take(Hold { id, units, lease }, lapse - lease);
            words.extend([lapse.to_string(), format!("{id}/{lease}*{units}")]);
        }
        if holds.units() > 0 {
            words.extend([format!("-{}", holds.units()), "held".to_owned()]);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert!(!planter.command(&words).await.unwrap().is_error());
        }
    }
    if !words.is_empty() {
        let words: Vec<&str> = [command, &key]
            .into_iter()
            .chain(words.iter().map(String::as_str))
            .collect();
        let reply = planter.command(&words).await.unwrap();
        assert!(!reply.is_error(), "{reply:?}");
    }
    Kept {
        state,
        drops: u64::MAX,
        blocked_until,
        holds,
        holds_drop: u64::MAX,
    }
}
