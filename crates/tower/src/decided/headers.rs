//! Chooses the limit that the rate-limit headers describe, and writes the `X-RateLimit` headers.

use std::cmp::Reverse;

use http::header::Entry;
use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::{Micros, Verdict};
use tidegate_store::{Limit, Outcome};

use super::LimitVerdict;
use crate::Reset;

/// The header with the capacity of the limit that the three `X-RateLimit` headers describe.
pub const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The header with the units that are left of the limit in [`X_RATELIMIT_LIMIT`].
pub const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The header with the time when all units of the limit in [`X_RATELIMIT_LIMIT`] are free again, in seconds since the epoch or from now,
/// rounded up.
pub const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The IETF's header with the quota and the window of each limit.
pub const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The IETF's header with the units that are left of the limit in [`X_RATELIMIT_LIMIT`].
pub const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Returns the index of the rule that the rate-limit headers describe. For a refused request, this is the refusing rule with the longest
/// wait. For an admitted request, only rules that count this caller alone are compared. The chosen rule has the smallest share of its units
/// left. If shares are equal, the rule with the longer reset is chosen. Limits that only observe are never described.
pub(crate) fn tightest<'a>(
    outcome: Outcome,
    verdicts: impl Iterator<Item = LimitVerdict<'a>>,
) -> Option<usize> {
    let verdicts = verdicts.filter(|entry| !entry.limit.is_observed());
    let verdicts = verdicts.filter_map(|entry| Some((entry, entry.verdict?)));
    let tightest =
        match outcome {
            Outcome::Unavailable => None,
            // `min_by_key` returns the first of several equal waits.
            Outcome::Refused => verdicts
                .filter(|(_, verdict)| !verdict.allowed)
                .min_by_key(|(_, verdict)| Reverse(verdict.retry_after)),
            Outcome::Admitted => verdicts.filter(|(entry, _)| entry.rule.is_shown()).min_by(
                |(a, left), (b, right)| {
                    let capacity =
                        |entry: &LimitVerdict<'_>| u128::from(entry.limit.quota().capacity());
                    let share_a = u128::from(left.remaining) * capacity(b);
                    let share_b = u128::from(right.remaining) * capacity(a);
                    share_a.cmp(&share_b).then(right.reset.cmp(&left.reset))
                },
            ),
        };
    tightest.map(|(entry, _)| entry.index)
}

/// Writes the three `X-RateLimit` headers, unless the upstream sent all three and reports fewer remaining units. For a `concurrency` limit,
/// writes no reset, because holds end at unknown times.
pub(crate) fn write(
    headers: &mut HeaderMap,
    limit: &Limit,
    verdict: &Verdict,
    now: Micros,
    reset: Reset,
) {
    let capacity = digits(limit.quota().capacity());
    match headers.entry(X_RATELIMIT_LIMIT) {
        // Most upstreams send no such header. `entry` hashes the name once; a lookup before an insertion would hash it twice.
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

/// The numbers below [`FEW`] as text, each with three digits.
const FEW_DIGITS: [u8; 3 * FEW] = {
    let mut digits = [b'0'; 3 * FEW];
    let mut number = 0;
    while number < FEW {
        digits[3 * number] += (number / 100) as u8;
        digits[3 * number + 1] += (number / 10 % 10) as u8;
        digits[3 * number + 2] += (number % 10) as u8;
        number += 1;
    }
    digits
};

/// The numbers below [`FEW`] as text.
static FEW_TEXTS: [&str; FEW] = {
    let all: &'static [u8] = &FEW_DIGITS;
    let mut texts = [""; FEW];
    let mut number = 0;
    while number < FEW {
        let zeros = (number < 10) as usize + (number < 100) as usize;
        let (_, from) = all.split_at(3 * number + zeros);
        let (digits, _) = from.split_at(3 - zeros);
        if let Ok(text) = std::str::from_utf8(digits) {
            texts[number] = text;
        }
        number += 1;
    }
    texts
};

/// The numbers below this number need no allocation.
const FEW: usize = 1_000;

/// Writes a number as a header's value. `HeaderValue::from` would allocate twice and take twice the time.
pub(crate) fn digits(number: u64) -> HeaderValue {
    if let Some(few) = few_digits(number) {
        return HeaderValue::from_static(few);
    }
    let mut buffer = itoa::Buffer::new();
    // Digits are always a valid header value.
    HeaderValue::from_str(buffer.format(number)).unwrap_or(HeaderValue::from_static("0"))
}

/// Returns the text of a small number.
fn few_digits(number: u64) -> Option<&'static str> {
    FEW_TEXTS.get(usize::try_from(number).ok()?).copied()
}

fn number(value: &HeaderValue) -> Option<u64> {
    value.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
