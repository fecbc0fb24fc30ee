use tidegate_core::{FixedWindow, Rate, SlidingWindowLog, TokenBucket};

use super::*;
use crate::{Key, Limit, Mode, OnFailure};

const PATIENCE: Duration = Duration::from_millis(25);
const SECOND: Duration = Duration::from_secs(1);
const AT: Micros = 1_000_000_000_000;

fn limit(most: u64) -> Limit {
    let quota = FixedWindow::new(most, 3_600_000_000).unwrap();
    Limit::new("limit", quota, OnFailure::Local)
}

fn charge(limit: &Limit, client: u64, cost: u64) -> Charge<'_> {
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&client.to_be_bytes());
    Charge {
        limit,
        key: Key { tag, rest: [0; 16] },
        cost,
        origin: None,
    }
}

fn refused(retry_after: Micros) -> Verdict {
    Verdict {
        allowed: false,
        remaining: 0,
        reset: retry_after + 5,
        retry_after,
        delay: 0,
        settling: false,
    }
}

fn refusal(cache: &DecisionCache, charge: &Charge<'_>, now: Instant) -> Option<(Verdict, Micros)> {
    match cache.of(charge, now) {
        Known::Refused(verdict, at) => Some((verdict, at)),
        Known::Stale(..) if cache.claim(charge, now, PATIENCE, RefusedBy::Nothing) => None,
        Known::Stale(verdict, at) => Some((verdict, at)),
        Known::Exhausted | Known::Nothing => None,
    }
}

/// Sent at `now`, answered 2 ms later.
fn call(now: Instant) -> Call {
    let received = now + Duration::from_millis(2);
    Call {
        sent: now,
        received,
        at: AT,
    }
}

#[test]
fn a_refusal_holds_until_its_time_has_come_and_says_what_is_left_of_it() {
    let (cache, limit, now) = (DecisionCache::default(), limit(5), Instant::now());
    let charge = charge(&limit, 1, 1);
    cache.note(&charge, &refused(300_000), call(now));
    for (ms, left) in [(2, 300_000), (3, 299_000), (102, 200_000), (301, 1_000)] {
        let time = now + Duration::from_millis(ms);
        let (verdict, at) = refusal(&cache, &charge, time).unwrap();
        assert_eq!((verdict.allowed, verdict.retry_after), (false, left));
        assert_eq!(verdict.reset, left + 5);
        assert_eq!(at + left, AT + 300_000);
    }
    for ms in [302, 303, 5_000] {
        let time = now + Duration::from_millis(ms);
        assert_eq!(refusal(&cache, &charge, time), None);
    }
}

#[test]
fn after_a_second_from_its_sending_one_caller_asks_again_at_a_time() {
    let (cache, limit, now) = (DecisionCache::default(), limit(5), Instant::now());
    let charge = charge(&limit, 1, 1);
    cache.note(&charge, &refused(60_000_000), call(now));
    let asks = |at| refusal(&cache, &charge, at).is_none();
    assert!(!asks(now + SECOND - Duration::from_millis(1)));
    assert!(asks(now + SECOND));
    for _ in 0..100 {
        assert!(!asks(now + SECOND));
    }
    // Whoever asked may have gone.
    assert!(asks(now + SECOND + PATIENCE));
    assert!(!asks(now + SECOND + PATIENCE));
    let again = now + SECOND + PATIENCE;
    cache.note(&charge, &refused(59_000_000), call(again));
    assert!(!asks(again + SECOND - Duration::from_millis(1)));
    assert!(asks(again + SECOND));
}

#[test]
fn a_block_that_refused_requests_extend_is_asked_about_in_a_quarter_of_its_time() {
    let (cache, now) = (DecisionCache::default(), Instant::now());
    for (span, quarter) in [(1, 250), (3, 750), (4, 1_000), (3_600, 1_000)] {
        let block = Block {
            span: span * 1_000_000,
            extend: true,
        };
        let limit = limit(5).blocking(block);
        let charge = charge(&limit, span, 1);
        cache.note(&charge, &refused(block.span), call(now));
        let asks = |ms| refusal(&cache, &charge, now + Duration::from_millis(ms)).is_none();
        assert!(!asks(quarter - 1));
        assert!(asks(quarter));
        assert!(!asks(quarter));
    }
}

#[test]
fn after_an_answer_that_did_not_come_nobody_is_refused_until_one_comes() {
    let (cache, limit, now) = (DecisionCache::default(), limit(5), Instant::now());
    let charge = charge(&limit, 1, 1);
    cache.note(&charge, &refused(60_000_000), call(now));
    let later = now + SECOND;
    assert_eq!(refusal(&cache, &charge, later), None);
    assert!(refusal(&cache, &charge, later).is_some());
    cache.unanswered(&charge);
    for _ in 0..100 {
        assert_eq!(refusal(&cache, &charge, later), None);
    }
    // What was used is still known.
    assert!(cache.state(&charge, limit.quota(), AT).is_some());
    cache.note(&charge, &refused(60_000_000), call(later));
    assert!(refusal(&cache, &charge, later).is_some());
}

#[test]
fn only_a_refusal_of_this_key_for_no_more_than_this_cost_counts() {
    let (cache, limit, now) = (DecisionCache::default(), limit(5), Instant::now());
    let verdict = Verdict {
        reset: 300_000,
        remaining: 2,
        ..refused(300_000)
    };
    cache.note(&charge(&limit, 1, 3), &verdict, call(now));
    let other = Limit::new("other", *limit.quota(), OnFailure::Local);
    let refuses = |charge| refusal(&cache, &charge, now).is_some();
    assert!(refuses(charge(&limit, 1, 3)));
    assert!(refuses(charge(&limit, 1, 4)));
    assert!(!refuses(charge(&limit, 1, 2)));
    assert!(!refuses(charge(&limit, 2, 3)));
    assert!(!refuses(charge(&other, 1, 3)));
    let admitted = Verdict {
        allowed: true,
        remaining: 1,
        ..refused(0)
    };
    cache.note(&charge(&limit, 1, 3), &admitted, call(now));
    assert!(!refuses(charge(&limit, 1, 3)));
}

#[test]
fn what_was_used_goes_on_by_share() {
    let (cache, now) = (DecisionCache::default(), Instant::now());
    let limit = limit(100);
    let charge = charge(&limit, 1, 1);
    let left = |gateways: u64, remaining: u64| {
        let verdict = Verdict {
            allowed: true,
            remaining,
            ..refused(0)
        };
        cache.note(&charge, &verdict, call(now));
        let quota = limit.quota().divided(gateways);
        let mut state = cache
            .state(&charge, &quota, AT)
            .unwrap_or_else(|| quota.fresh());
        quota.check(&mut state, 1, AT).remaining
    };
    assert_eq!(left(1, 100), 100);
    assert_eq!(left(1, 30), 30);
    assert_eq!(left(1, 0), 0);
    assert_eq!(left(4, 100), 25);
    assert_eq!(left(4, 30), 7);
    assert_eq!(
        left(4, 3),
        0,
        "rounded down, or four times one would be four"
    );
    assert_eq!(left(1_000, 100), 1, "at least one");
}

#[test]
fn a_bucket_that_was_seen_a_while_ago_has_refilled_since() {
    let cache = DecisionCache::default();
    let rate = Rate {
        count: 10,
        per: 1_000_000,
    };
    let limit = Limit::new(
        "limit",
        TokenBucket::new(10, rate).unwrap(),
        OnFailure::Local,
    );
    let charge = charge(&limit, 1, 1);
    let before = Instant::now() - Duration::from_millis(502);
    cache.note(&charge, &refused(100_000), call(before));
    let mut state = cache.state(&charge, limit.quota(), AT).unwrap();
    let remaining = limit.quota().check(&mut state, 1, AT).remaining;
    assert!((5..10).contains(&remaining), "{remaining}");
}

#[test]
fn the_table_is_bounded_and_the_oldest_make_place() {
    let (cache, limit, start) = (DecisionCache::default(), limit(5), Instant::now());
    let many = 3 * (ROWS * KEYS) as u64;
    for client in 0..many {
        let now = start + Duration::from_micros(client);
        cache.note(&charge(&limit, client, 1), &refused(10_000_000), call(now));
    }
    let end = start + Duration::from_micros(many);
    let holds = |clients: std::ops::Range<u64>| {
        let held =
            clients.filter(|client| refusal(&cache, &charge(&limit, *client, 1), end).is_some());
        held.count()
    };
    // The last ones are there, but for the few whose row was filled by younger ones.
    assert!(holds(many - 1_000..many) > 990);
    assert!(holds(0..many) <= ROWS * KEYS);
}

/// A reload may change the limit or the refill alone. The refusal by other numbers tells nothing, and the next answer replaces it.
#[test]
fn a_refusal_by_other_numbers_is_not_given_again() {
    let bucket = |capacity, count| {
        let per = 60_000_000;
        TokenBucket::new(capacity, Rate { count, per }).unwrap()
    };
    let old = Limit::new("limit", bucket(20, 20), OnFailure::Local);
    for new in [bucket(50, 20), bucket(20, 2_000)] {
        let (cache, now) = (DecisionCache::default(), Instant::now());
        let new = old.with_quota(new);
        let (old, new) = (charge(&old, 1, 1), charge(&new, 1, 1));
        cache.note(&old, &refused(300_000), call(now));
        assert!(refusal(&cache, &old, now).is_some());
        assert_eq!(cache.of(&new, now), Known::Nothing);
        cache.note(&new, &refused(30_000), call(now));
        assert!(refusal(&cache, &new, now).is_some());
        assert_eq!(cache.of(&old, now), Known::Nothing);
    }
}

/// Each plan has refusals of its own.
#[test]
fn a_refusal_of_one_plan_is_none_of_another() {
    let (cache, free, now) = (DecisionCache::default(), limit(5), Instant::now());
    let gold = free.clone().of_plan("gold");
    let (by_free, by_gold) = (charge(&free, 1, 1), charge(&gold, 1, 1));
    cache.note(&by_free, &refused(300_000), call(now));
    assert_eq!(cache.of(&by_gold, now), Known::Nothing);
    cache.note(&by_gold, &refused(200_000), call(now));
    cache.forget(&by_gold);
    assert!(refusal(&cache, &by_free, now).is_some());
}

/// Held units may be free at any moment.
#[test]
fn a_refusal_for_the_sake_of_holds_is_not_given_again() {
    let (cache, now) = (DecisionCache::default(), Instant::now());
    let limit = limit(5);
    let charge = charge(&limit, 1, 1);
    let settling = Verdict {
        settling: true,
        ..refused(60_000_000)
    };
    cache.note(&charge, &settling, call(now));
    assert_eq!(cache.of(&charge, now), Known::Nothing);
}

/// In an outage each decision begins with this: it must not cost what the limit may hold.
#[test]
fn what_was_seen_of_a_large_limit_is_a_small_state() {
    let large = 1_000_000;
    let quota: Quota = SlidingWindowLog::new(large, 3_600_000_000).unwrap().into();
    let (cache, limit) = (
        DecisionCache::default(),
        Limit::new("large", quota, OnFailure::Local),
    );
    let charge = charge(&limit, 1, 1);
    cache.note(&charge, &refused(300_000), call(Instant::now()));
    let now = crate::now();
    let mut state = cache.state(&charge, &quota, now).unwrap();
    assert_eq!(quota.check(&mut state, 1, now).remaining, 0);
    let length = format!("{state:?}").len();
    assert!(length < 300, "{length} characters say what it is");
}

/// A log of 9 units. Its refusals leave open when a larger cost fits.
fn log_limit() -> Limit {
    let quota = SlidingWindowLog::new(9, 60_000_000).unwrap();
    Limit::new("log", quota, OnFailure::Local)
}

/// A refusal after which all units are free in 50 s.
fn log_refusal(retry_after: Micros) -> Verdict {
    Verdict {
        reset: 50_000_000,
        ..refused(retry_after)
    }
}

/// A log leaves open when a larger cost fits. The answer about it is kept beside that about the smaller cost, in either order.
#[test]
fn a_larger_cost_has_a_wait_of_its_own() {
    let limit = log_limit();
    let of = |cost| charge(&limit, 1, cost);
    let now = Instant::now();
    let soon = now + Duration::from_millis(10);
    let later = now + Duration::from_millis(12);
    let (small, large) = ((1, 10_000_000), (4, 40_000_000));
    for (first, second) in [(small, large), (large, small)] {
        let cache = DecisionCache::default();
        let wait =
            |cost, at| refusal(&cache, &of(cost), at).map(|(verdict, _)| verdict.retry_after);
        cache.note(&of(first.0), &log_refusal(first.1), call(now));
        assert_eq!(wait(first.0, soon), Some(first.1 - 8_000));
        assert_eq!(cache.of(&of(second.0), soon), Known::Exhausted);
        cache.note(&of(second.0), &log_refusal(second.1), call(soon));
        assert_eq!(wait(first.0, later), Some(first.1 - 10_000));
        assert_eq!(wait(second.0, later), Some(second.1));
        // Between them the larger wait is enough, and beyond them that for all to leave.
        assert_eq!(wait(2, later), wait(4, later));
        for cost in [5, 9] {
            let wait = wait(cost, later).unwrap();
            assert!((49_990_000..=50_000_000).contains(&wait), "{wait}");
        }
    }
}

/// The answer about a charge between two refusals was overtaken, so that only the units that are left show the charge.
#[test]
fn a_charge_between_two_refusals_opens_the_wait_of_the_larger_cost() {
    let limit = log_limit();
    let of = |cost| charge(&limit, 1, cost);
    let (now, soon) = (Instant::now(), Instant::now() + Duration::from_millis(10));
    for (left, wait) in [(1, Some(4_000_000)), (0, None)] {
        let cache = DecisionCache::default();
        let answer = |retry_after, remaining| Verdict {
            remaining,
            ..log_refusal(retry_after)
        };
        cache.note(&of(2), &answer(4_010_000, 1), call(now));
        cache.note(&of(1), &answer(4_000_000, left), call(soon));
        let later = refusal(&cache, &of(2), soon + Duration::from_millis(2));
        assert_eq!(
            later.map(|(verdict, _)| verdict.retry_after),
            wait,
            "{left} left"
        );
    }
}

/// The reset leaves out slices of other gateways, for which a larger cost has to wait as well.
#[test]
fn a_larger_cost_of_a_leased_limit_is_asked_about() {
    let rate = Rate {
        count: 10,
        per: 60_000_000,
    };
    let bucket = TokenBucket::new(10, rate).unwrap();
    for quota in [Quota::from(bucket), *log_limit().quota()] {
        let now = Instant::now();
        let limit = Limit::new("limit", quota, OnFailure::Local).in_mode(Mode::Leased);
        let cache = DecisionCache::default();
        let wait = |cost| refusal(&cache, &charge(&limit, 1, cost), now).map(|it| it.0.retry_after);
        cache.note(&charge(&limit, 1, 1), &log_refusal(6_000_000), call(now));
        assert_eq!((wait(1), wait(4)), (Some(6_000_000), None));
        cache.note(&charge(&limit, 1, 4), &log_refusal(70_000_000), call(now));
        let waits = [1, 4, 5].map(wait);
        assert_eq!(waits, [Some(6_000_000), Some(70_002_000), None]);
    }
}

/// The refusal of a larger cost outlasts that of the smaller cost beside it.
#[test]
fn a_larger_cost_stays_refused_beside_another_limit() {
    let limit = log_limit();
    let of = |cost| charge(&limit, 1, cost);
    let now = Instant::now();
    let (small_is_over, all_is_old) = (now + Duration::from_millis(300), now + 2 * SECOND);
    let cache = DecisionCache::default();
    cache.note(&of(1), &log_refusal(200_000), call(now));
    cache.note(&of(4), &log_refusal(40_000_000), call(now));
    let doubt = |cost, at| cache.doubt(&of(cost), at, true);
    let wait = |cost| match doubt(cost, small_is_over) {
        Doubt::Refused(verdict) => verdict.retry_after,
        other => panic!("{other:?}"),
    };
    assert_eq!(wait(4), 40_000_000 - 298_000);
    assert_eq!(wait(5), 50_000_000 - 298_000);
    assert_eq!(doubt(1, small_is_over), Doubt::None);
    assert_eq!(doubt(4, all_is_old), Doubt::Due);
}

/// A block may refuse a cost that would fit. So its end is not the wait of a cost that does not.
#[test]
fn a_larger_cost_may_wait_for_more_than_the_block() {
    let ms = Duration::from_millis;
    let soon = Instant::now();
    let first = soon - ms(202);
    for extend in [false, true] {
        let cache = DecisionCache::default();
        let span = 1_000_000;
        let limit = limit(5).blocking(Block { span, extend });
        let answer = |retry_after| Verdict {
            reset: 60_000_000,
            ..refused(retry_after)
        };
        let small = charge(&limit, 1, 1);
        cache.note(&small, &answer(900_000), call(first));
        assert_eq!(cache.of(&charge(&limit, 1, 3), soon), Known::Exhausted);
        cache.note(
            &charge(&limit, 1, 3),
            &answer(60_000_000),
            call(soon - ms(2)),
        );
        let wait = |cost| {
            let (verdict, _) = refusal(&cache, &charge(&limit, 1, cost), soon).unwrap();
            verdict.retry_after
        };
        assert_eq!(wait(3), 60_000_000);
        let block = if extend { span } else { 700_000 };
        assert_eq!(wait(1), block);
        // In an outage, too.
        let until = cache.blocked_until(&small, AT);
        assert!((AT + block - micros(soon.elapsed())..=AT + block).contains(&until));
    }
}
