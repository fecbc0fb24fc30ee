//! Waits of requests that do not fit the numbers of their limit: longer than clients wait, or too short for a unit to come back.

use std::time::Duration;

use crate::yaml::Problem;
use tidegate_core::Quota;
use tidegate_tower::Action;

use crate::check::Check;
use crate::limits::WrittenLimit;
use crate::shape::SingleOr;

/// The longest wait of most clients.
const PATIENCE: Duration = Duration::from_secs(60);

/// The number of longest waits in the time of one unit, from which on a delay hardly helps.
const RARE: u32 = 10;

/// Warns of waits that help no client.
pub(crate) fn waits(
    check: &mut Check<'_>,
    limit: &WrittenLimit,
    quota: &Quota,
    action: Action,
    nodelay: bool,
) {
    let full = Duration::from_micros(quota.period());
    if let Some(bucket) = &limit.leaky_bucket
        && full > PATIENCE
        && !nodelay
    {
        let wait = humantime::format_duration(Duration::from_secs(full.as_secs()));
        let message = format!("the last place in this queue waits {wait}");
        let problem = Problem::new(bucket.queue.place, message);
        check.warn(problem.note(
            "most clients give up before: write a smaller `queue`, or `nodelay: true` for requests that go on at once",
        ));
    }
    if let (Action::Delay { max }, Some(SingleOr::Block(block)), Some(_)) =
        (action, &limit.action, &limit.token_bucket)
    {
        let capacity = u32::try_from(quota.capacity()).unwrap_or(u32::MAX);
        let unit = full / capacity.max(1);
        if max.saturating_mul(RARE) < unit {
            let written = &block.value.delay.max;
            let unit = humantime::format_duration(Duration::from_millis(
                u64::try_from(unit.as_millis()).unwrap_or(u64::MAX),
            ));
            let message = format!("`max: {}` hardly ever lets a request wait", written.raw);
            let problem = Problem::new(written.place, message);
            check.warn(problem.note(format!(
                "one unit takes {unit} to come back: write a longer `max`"
            )));
        }
    }
}
