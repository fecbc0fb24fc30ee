//! Warns of slips in the keys and numbers of one limit: the limit works, but hardly as intended.
//!
//! Two slips concern waiting requests. Some requests would wait too long for their clients, and some too briefly for the refill of a unit.

use std::time::Duration;

use crate::yaml::{Place, Problem};
use tidegate_store::Mode;
use tidegate_tower::{Action, Per, Rule};

use crate::check::Check;
use crate::limits::WrittenLimit;
use crate::shape::SingleOr;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A small bucket gets a warning if it refills completely within this time. Such a bucket refuses requests that its rate would admit.
const HASTE: Duration = Duration::from_millis(100);

/// The largest capacity of a small bucket, in units. The capacity of a larger bucket is probably intended, because the bucket bounds a
/// whole service.
const SMALL: u64 = 10;

/// The longest `lease` of `concurrency` without a warning: the default of `timeouts.upstream`.
const LONG_LEASE: Duration = Duration::from_secs(60);

/// The longest time in a queue without a warning. Most clients give up before it ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// If the refill of one unit takes more than this multiple of `delay.max`, the delay gets a warning, because it hardly ever helps.
const RARE: u32 = 10;

/// Warns of slips in a limit. `sync_every` is the store's, or zero if no other gateway shares the limits.
pub(crate) fn slips(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    rule: &Rule,
    sync_every: Duration,
) {
    let quota = rule.limit.quota();
    let period = Duration::from_micros(quota.period());
    let mut months = [28, 30, 31].into_iter();
    let month = months.find(|days| period == DAY * *days);
    if let Some(bucket) = &limit.leaky_bucket
        && period > PATIENCE
        && !rule.nodelay
    {
        let wait = humantime::format_duration(Duration::from_secs(period.as_secs()));
        let message = format!("the last place in this queue waits {wait}");
        check.warn(Problem::new(bucket.queue.place, message).note(
            "most clients give up before: write a smaller `queue`, or `nodelay: true` for requests that go on at once",
        ));
    }
    if let (Action::Delay { max }, Some(SingleOr::Block(block)), Some(_)) =
        (rule.action, &limit.action, &limit.token_bucket)
    {
        let capacity = u32::try_from(quota.capacity()).unwrap_or(u32::MAX);
        let unit = period / capacity.max(1);
        if max.saturating_mul(RARE) < unit {
            let written = &block.value.delay.max;
            let millis = u64::try_from(unit.as_millis()).unwrap_or(u64::MAX);
            let unit = humantime::format_duration(Duration::from_millis(millis));
            let message = format!("`max: {}` hardly ever lets a request wait", written.raw);
            let note = format!("one unit takes {unit} to come back: write a longer `max`");
            check.warn(Problem::new(written.place, message).note(note));
        }
    }
    let mut warn = |place: Option<Place>, message: String, note: &str| {
        check.warn(Problem::new(place, message).note(note));
    };
    let is_anybodys =
        |per: &Per| matches!(per, Per::Route | Per::Method | Per::Host | Per::Json(_));
    let is_enforced = !rule.limit.is_observed() && limit.concurrency.is_none();
    if let Some(block) = &limit.block
        && is_enforced
        && rule.per.iter().all(is_anybodys)
    {
        warn(
            block.place,
            "one client can have all others refused".to_owned(),
            "this limit counts all clients together: write `block` at a limit per `ip` or `client`",
        );
    }
    if let Some(bucket) = &limit.token_bucket
        && period <= HASTE
        && quota.capacity() <= SMALL
        && is_enforced
        && !matches!(rule.action, Action::Delay { .. })
    {
        warn(
            bucket.capacity.place,
            format!(
                "this bucket admits no more than {} at once",
                quota.capacity()
            ),
            "one more is refused, also if few come per second: write a `capacity` of about one second of `refill`",
        );
    }
    if let Some(bucket) = &limit.leaky_bucket
        && quota.capacity() == 1
        && !rule.nodelay
    {
        warn(
            bucket.queue.place,
            "no request waits in a queue of 1".to_owned(),
            "the request that goes on at once is one of the queue: write 2 or more, or a token_bucket",
        );
    }
    if let (Some(fixed), Some(days)) = (&limit.fixed_window, month)
        && quota.calendar().is_none()
    {
        warn(
            fixed.window.place,
            format!("windows of {days}d do not begin with a month"),
            "they are counted from 1970 on: write `1mo` for months, or a sliding_window_counter for the days before a request",
        );
    }
    if let Some(lease) = limit.concurrency.as_ref().and_then(|it| it.lease.as_ref())
        && period > LONG_LEASE
    {
        warn(
            lease.place,
            format!("a gateway that dies keeps its holds for {}", lease.raw),
            "`lease` is no time limit of requests, because gateways renew it: leave it out. `timeouts` end requests",
        );
    }
    // Without another gateway there are no counts to wait for.
    let own = rule.limit.sync_every().filter(|_| !sync_every.is_zero());
    let is_late = period <= 2 * own.unwrap_or(sync_every);
    if rule.limit.mode() == Mode::Synced && is_late {
        let mut numbers = limit.algorithms().into_iter();
        warn(
            numbers.find_map(|numbers| numbers.places().1),
            "the counts of other gateways arrive too late for this window".to_owned(),
            "each gateway admits the whole limit: write a longer `window`, a shorter `sync_every`, or `mode: exact`",
        );
    }
}
