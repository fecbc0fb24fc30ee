use tidegate_core::{FixedWindow, Micros};
use tidegate_store::OnFailure;

use super::*;
use crate::{Per, Rule};

const SECOND: Micros = 1_000_000;

/// A limit of `capacity`, counted per client.
fn own(capacity: u64) -> Rule {
    counted(capacity, &[Per::Client])
}

fn counted(capacity: u64, per: &[Per]) -> Rule {
    let quota = FixedWindow::new(capacity, SECOND).unwrap();
    Rule::new(Limit::new("limit", quota, OnFailure::Local), per)
}

fn allowed(remaining: u64, reset: Micros) -> Option<Verdict> {
    Some(Verdict {
        allowed: true,
        remaining,
        reset,
        retry_after: 0,
        delay: 0,
        settling: false,
    })
}

fn refused(retry_after: Micros) -> Option<Verdict> {
    Some(Verdict {
        allowed: false,
        remaining: 0,
        reset: retry_after,
        retry_after,
        delay: 0,
        settling: false,
    })
}

/// Returns the rule that the headers describe if `rules` returned these verdicts.
fn choose(outcome: Outcome, rules: &[Rule], verdicts: &[Option<Verdict>]) -> Option<usize> {
    let entries = rules.iter().zip(verdicts).enumerate();
    let entries = entries.map(|(index, (rule, verdict))| LimitVerdict {
        index,
        rule,
        limit: &rule.limit,
        verdict: verdict.as_ref(),
    });
    tightest(outcome, entries)
}

fn admitted(rules: &[Rule], verdicts: &[Option<Verdict>]) -> Option<usize> {
    choose(Outcome::Admitted, rules, verdicts)
}

#[test]
fn admitted_the_smallest_share_counts_and_not_the_smallest_number() {
    let rules = [own(1000), own(4)];
    assert_eq!(admitted(&rules, &[allowed(10, 0), allowed(3, 0)]), Some(0));
    assert_eq!(admitted(&rules, &[allowed(900, 0), allowed(3, 0)]), Some(1));
    let largest = [own(1 << 52), own(1 << 52)];
    let nearly = [allowed((1 << 52) - 1, 0), allowed((1 << 52) - 2, 0)];
    assert_eq!(
        admitted(&largest, &nearly),
        Some(1),
        "at the largest quotas"
    );
}

#[test]
fn equal_shares_go_by_the_longer_reset_and_then_by_order() {
    let rules = [own(10), own(20), own(10)];
    let resets = |a, b, c| [allowed(5, a), allowed(10, b), allowed(5, c)];
    assert_eq!(admitted(&rules, &resets(1, 2, 1)), Some(1));
    assert_eq!(admitted(&rules, &resets(1, 1, 2)), Some(2));
    assert_eq!(admitted(&rules, &resets(2, 2, 2)), Some(0));
}

#[test]
fn admitted_only_what_is_counted_for_the_caller_is_shown() {
    for shared in [&[][..], &[Per::Route], &[Per::Method, Per::Host]] {
        let rules = [counted(10, shared), own(10)];
        assert_eq!(admitted(&rules, &[allowed(0, 0), allowed(9, 0)]), Some(1));
        assert_eq!(admitted(&rules[..1], &[allowed(0, 0)]), None, "{shared:?}");
    }
    for callers in [Per::Client, Per::Ip, Per::ApiKey, Per::UserId] {
        let rules = [own(10), counted(10, &[Per::Route, callers])];
        assert_eq!(admitted(&rules, &[allowed(9, 0), allowed(0, 0)]), Some(1));
    }
}

#[test]
fn refused_the_longest_wait_counts_whoever_it_is_counted_for() {
    let rules = [own(10), counted(10, &[]), own(10)];
    let choose = |verdicts: [_; 3]| choose(Outcome::Refused, &rules, &verdicts);
    assert_eq!(choose([refused(5), allowed(0, 9), refused(7)]), Some(2));
    assert_eq!(choose([refused(5), refused(9), refused(7)]), Some(1));
    assert_eq!(choose([allowed(0, 9), refused(9), refused(9)]), Some(1));
}

#[test]
fn without_a_verdict_there_is_nothing_to_tell() {
    let rules = [own(10), own(10)];
    assert_eq!(admitted(&rules, &[None, None]), None);
    assert_eq!(admitted(&rules, &[None, allowed(9, 0)]), Some(1));
    let nowhere = [None, allowed(0, 0)];
    assert_eq!(choose(Outcome::Unavailable, &rules, &nowhere), None);
}

/// Returns the three headers after writing `remaining` of 10 over the upstream's headers.
fn written(theirs: [Option<&str>; 3], remaining: u64) -> [Option<String>; 3] {
    const NAMES: [HeaderName; 3] = [X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET];
    let mut headers = HeaderMap::new();
    for (name, value) in NAMES.into_iter().zip(theirs) {
        headers.extend(value.map(|value| (name, value.parse().unwrap())));
    }
    let verdict = allowed(remaining, 60 * SECOND).unwrap();
    let limit = own(10).limit;
    write(&mut headers, &limit, &verdict, 100 * SECOND, Reset::Epoch);
    NAMES.map(|name| Some(headers.get(name)?.to_str().unwrap().to_owned()))
}

fn three(limit: &str, remaining: &str, reset: &str) -> [Option<String>; 3] {
    [limit, remaining, reset].map(|value| Some(value.to_owned()))
}

#[test]
fn an_upstreams_own_numbers_stay_whole_where_they_leave_less() {
    let theirs = [Some("100"), Some("4"), Some("7")];
    assert_eq!(written(theirs, 5), three("100", "4", "7"));
    assert_eq!(written(theirs, 4), three("10", "4", "160"));
    assert_eq!(written(theirs, 3), three("10", "3", "160"));
}

#[test]
fn an_upstreams_numbers_that_say_nothing_are_replaced_whole() {
    let ours = three("10", "5", "160");
    assert_eq!(written([None; 3], 5), ours);
    for remaining in ["few", "-1", "", "1.5"] {
        assert_eq!(written([Some("100"), Some(remaining), Some("7")], 5), ours);
    }
    assert_eq!(written([Some("100"), None, Some("7")], 5), ours);
    assert_eq!(written([None, Some("4"), None], 5), ours, "one is no three");
}

#[test]
fn the_reset_is_rounded_up_to_a_whole_second() {
    let reset_by = |by, now, reset| {
        let mut headers = HeaderMap::new();
        let verdict = allowed(5, reset).unwrap();
        write(&mut headers, &own(10).limit, &verdict, now, by);
        headers[X_RATELIMIT_RESET].to_str().unwrap().to_owned()
    };
    let reset = |now, reset| reset_by(Reset::Epoch, now, reset);
    assert_eq!(reset(100 * SECOND, 0), "100");
    assert_eq!(reset(100 * SECOND, 1), "101");
    assert_eq!(reset(100 * SECOND - 1, SECOND), "101");
    assert_eq!(reset(100 * SECOND - 1, SECOND + 1), "101");
    assert_eq!(reset(100 * SECOND, SECOND + 1), "102");
    let delta = |reset| reset_by(Reset::Delta, 100 * SECOND - 1, reset);
    assert_eq!((&*delta(0), &*delta(1)), ("0", "1"));
    assert_eq!((&*delta(SECOND), &*delta(SECOND + 1)), ("1", "2"));
}

#[test]
fn small_numbers_are_written_as_all_others() {
    for number in (0..=1_100).chain([u64::MAX]) {
        assert_eq!(digits(number), number.to_string());
    }
}
