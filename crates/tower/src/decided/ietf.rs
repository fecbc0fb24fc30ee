//! `RateLimit-Policy` and `RateLimit`: draft 11 of the IETF's specification, as structured fields (RFC 9651).

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate_core::{Micros, Quota, Verdict};
use tidegate_store::Limit;

use super::headers::{RATELIMIT, RATELIMIT_POLICY};
use super::refusal::whole_seconds;

/// The largest integer that a structured field can have.
const LARGEST: u64 = 999_999_999_999_999;

/// Writes `RateLimit-Policy` with the policies of all `limits`, and `RateLimit` with the numbers of the limit `tightest`, from its `verdict`.
/// Items that the upstream has sent stay in front of the gateway's items.
pub(crate) fn write<'a>(
    headers: &mut HeaderMap,
    limits: impl Iterator<Item = &'a Limit>,
    tightest: &Limit,
    verdict: &Verdict,
) {
    let mut policies = String::new();
    for limit in limits {
        if !policies.is_empty() {
            policies.push_str(", ");
        }
        policy(&mut policies, limit);
    }
    add(headers, RATELIMIT_POLICY, policies);
    let (left, seconds) = left(tightest.quota(), verdict);
    let mut text = String::new();
    item(&mut text, tightest.name());
    parameter(&mut text, ";r=", left);
    parameter(&mut text, ";t=", seconds);
    add(headers, RATELIMIT, text);
}

/// Writes one item: the limit's name, its quota, and the window in seconds, rounded up. An item has no window if the window is shorter than
/// a second. The item of a `concurrency` limit names running requests as its unit (`qu`).
fn policy(text: &mut String, limit: &Limit) {
    let (quota, period) = (limit.quota().capacity(), limit.quota().period());
    item(text, limit.name());
    parameter(text, ";q=", quota);
    if !limit.quota().has_reset() {
        text.push_str(";qu=\"concurrent-requests\"");
    } else if period >= 1_000_000 {
        parameter(text, ";w=", period.div_ceil(1_000_000));
    }
}

/// Writes the name of a limit in quotes. Names of limits need no escapes. Does not use `write!`, which would double the time for a header.
fn item(text: &mut String, name: &str) {
    text.push('"');
    text.push_str(name);
    text.push('"');
}

/// Writes a number as a parameter of an item. A number above [`LARGEST`] is written as [`LARGEST`].
fn parameter(text: &mut String, name: &str, number: u64) {
    text.push_str(name);
    text.push_str(itoa::Buffer::new().format(number.min(LARGEST)));
}

/// Returns the units that a client may use now, and the seconds for which these units last. In a window, the units last until the end of
/// the window. In a bucket, the units last for the time in which the bucket's rate adds this number of units. After a refusal, the result
/// is 0 units until the retry time.
fn left(quota: &Quota, verdict: &Verdict) -> (u64, Micros) {
    if !verdict.allowed {
        return (0, whole_seconds(verdict.retry_after));
    }
    let left = verdict.remaining;
    let time = if quota.is_paced() {
        paced(quota, left.max(1))
    } else {
        verdict.reset
    };
    (left, time.div_ceil(1_000_000))
}

/// Returns the time in which a bucket's rate adds `amount` units.
fn paced(quota: &Quota, amount: u64) -> Micros {
    let time = u128::from(quota.period()) * u128::from(amount);
    let time = time.div_ceil(u128::from(quota.capacity().max(1)));
    // The result is at most the period, because `amount` is at most the capacity. So the fallback is never used.
    u64::try_from(time).unwrap_or(Micros::MAX)
}

/// Appends `ours` to a list field, and joins all lines of the field into one.
fn add(headers: &mut HeaderMap, name: HeaderName, ours: String) {
    let value = match headers.contains_key(&name) {
        false => HeaderValue::try_from(ours).ok(),
        true => joined(headers, &name, &ours),
    };
    // The value is valid, because all its parts are.
    if let Some(value) = value {
        headers.insert(name, value);
    }
}

/// Joins the lines of a field and `ours`.
fn joined(headers: &HeaderMap, name: &HeaderName, ours: &str) -> Option<HeaderValue> {
    let theirs = headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let theirs = theirs.filter(|line| !line.trim_ascii().is_empty());
    let lines: Vec<&[u8]> = theirs.chain([ours.as_bytes()]).collect();
    HeaderValue::from_bytes(&lines.join(&b", "[..])).ok()
}

#[cfg(test)]
mod tests;
