//! The rate-limit headers: which limit they describe, and how they are written.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::{Micros, Verdict};
use tidegate_store::{Decision, Outcome};

use crate::Rule;

/// The limit that the three headers describe.
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// How much of it is left.
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When all of it will be back, in epoch seconds, rounded up.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The rule that an answer speaks of: refused, the one with the longest wait; admitted, of those that are the caller's
/// own the one with the smallest share left, ties by the longer reset.
pub(crate) fn tightest(rules: &[Rule], decision: &Decision) -> Option<usize> {
    let decided = || {
        let verdicts = decision.verdicts.iter().enumerate();
        verdicts.filter_map(|(index, verdict)| verdict.as_ref().map(|verdict| (index, verdict)))
    };
    match decision.outcome {
        Outcome::Unavailable => None,
        // `max_by` keeps the last of equals, and the first is wanted.
        Outcome::Refused => decided()
            .filter(|(_, verdict)| !verdict.allowed)
            .rev()
            .max_by_key(|(_, verdict)| verdict.retry_after)
            .map(|(index, _)| index),
        Outcome::Admitted => decided()
            .filter(|(index, _)| rules[*index].is_shown())
            .min_by(|(a, left), (b, right)| {
                let capacity = |index: &usize| u128::from(rules[*index].limit.quota().capacity());
                let share_a = u128::from(left.remaining) * capacity(b);
                let share_b = u128::from(right.remaining) * capacity(a);
                share_a.cmp(&share_b).then(right.reset.cmp(&left.reset))
            })
            .map(|(index, _)| index),
    }
}

/// Writes the three headers, unless the upstream wrote three of its own that leave less.
pub(crate) fn write(headers: &mut HeaderMap, rule: &Rule, verdict: &Verdict, now: Micros) {
    let triple = [
        &X_RATELIMIT_LIMIT,
        &X_RATELIMIT_REMAINING,
        &X_RATELIMIT_RESET,
    ];
    let theirs = headers.get(X_RATELIMIT_REMAINING).and_then(number);
    let whole = triple.iter().all(|name| headers.contains_key(*name));
    if whole && theirs.is_some_and(|theirs| theirs < verdict.remaining) {
        return;
    }
    let reset = (now + verdict.reset).div_ceil(1_000_000);
    headers.insert(X_RATELIMIT_LIMIT, rule.limit.quota().capacity().into());
    headers.insert(X_RATELIMIT_REMAINING, verdict.remaining.into());
    headers.insert(X_RATELIMIT_RESET, reset.into());
}

fn number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
