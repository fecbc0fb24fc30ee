//! The rate-limit headers: which limit they describe, and how they are written.

use std::cmp::Reverse;

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::{Micros, Verdict};
use tidegate_store::{Limit, Outcome};

use super::LimitVerdict;
use crate::Reset;

/// The limit that the three headers describe.
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// How much of it is left.
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// When all of it will be back, in seconds since the epoch or from now, rounded up.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The IETF's: what each limit admits, and in which time.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The IETF's: what is left of one of them.
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The rule that an answer speaks of, as its index. If the request is refused, it is the rule with the longest wait. If the request
/// is admitted, it is, of the caller's own rules, the one with the smallest share left. Ties go to the longer reset. What is only
/// observed is never told of.
pub(crate) fn tightest<'a>(
    outcome: Outcome,
    said: impl Iterator<Item = LimitVerdict<'a>>,
) -> Option<usize> {
    let said = said.filter(|said| !said.limit.is_observed());
    let said = said.filter_map(|said| Some((said, said.verdict?)));
    let tightest = match outcome {
        Outcome::Unavailable => None,
        // The first of equals.
        Outcome::Refused => said
            .filter(|(_, verdict)| !verdict.allowed)
            .min_by_key(|(_, verdict)| Reverse(verdict.retry_after)),
        Outcome::Admitted => {
            said.filter(|(said, _)| said.rule.is_shown())
                .min_by(|(a, left), (b, right)| {
                    let capacity =
                        |said: &LimitVerdict<'_>| u128::from(said.limit.quota().capacity());
                    let share_a = u128::from(left.remaining) * capacity(b);
                    let share_b = u128::from(right.remaining) * capacity(a);
                    share_a.cmp(&share_b).then(right.reset.cmp(&left.reset))
                })
        }
    };
    tightest.map(|(said, _)| said.index)
}

/// Writes the three headers, unless the upstream wrote three of its own that leave less. Holds of `concurrency` have no known
/// end, so such a limit has no reset.
pub(crate) fn write(
    headers: &mut HeaderMap,
    limit: &Limit,
    verdict: &Verdict,
    now: Micros,
    reset: Reset,
) {
    let capacity = digits(limit.quota().capacity());
    match headers.entry(X_RATELIMIT_LIMIT) {
        // Most APIs send none. A lookup before the insertion would hash the name twice.
        Entry::Vacant(vacant) => {
            vacant.insert(capacity);
        }
        Entry::Occupied(_) => {
            let theirs = headers.get(X_RATELIMIT_REMAINING).and_then(number);
            let is_whole = headers.contains_key(X_RATELIMIT_RESET);
            if is_whole && theirs.is_some_and(|theirs| theirs < verdict.remaining) {
                return;
            }
            headers.insert(X_RATELIMIT_LIMIT, capacity);
        }
    }
    headers.insert(X_RATELIMIT_REMAINING, digits(verdict.remaining));
    let reset = match reset {
        Reset::Epoch => now + verdict.reset,
        Reset::Delta => verdict.reset,
    };
    let reset = reset.div_ceil(1_000_000);
    if limit.quota().has_reset() {
        headers.insert(X_RATELIMIT_RESET, digits(reset));
    }
}

/// A number as a value, at half the cost of `HeaderValue::from`, which allocates twice.
pub(crate) fn digits(number: u64) -> HeaderValue {
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    // Digits are a value.
    HeaderValue::from_str(digits).unwrap_or(HeaderValue::from_static("0"))
}

fn number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
