//! The counters that are sampled, and the figures that are computed from their series.

use tidegate_status::Series;
use tidegate_status::document::{Columns, RequestCounts};

use crate::metrics::{GatewayMetrics, RequestTotals};
use crate::outcome::RequestOutcome;

/// The unit of the sampled durations of requests, in microseconds. With this unit, a `u32` can store the sum of 100 requests that took an
/// hour each and ended in the same second.
const TOOK_UNIT: u64 = 100;

/// Returns the numbers of all, refused and failed requests, and the sum of their durations in [`TOOK_UNIT`].
pub(super) fn requests(totals: &RequestTotals) -> [u64; 4] {
    let of = |these: &[RequestOutcome]| these.iter().map(|it| totals.outcomes[*it as usize]).sum();
    [
        of(&RequestOutcome::ALL),
        of(&[RequestOutcome::Limited, RequestOutcome::Dropped]),
        of(&[
            RequestOutcome::Unavailable,
            RequestOutcome::Shed,
            RequestOutcome::Failed,
        ]),
        totals.took / TOOK_UNIT,
    ]
}

/// Returns the numbers of a limit's verdicts: allowed, refused, would have been refused, undecided.
pub(super) fn verdicts(metrics: &GatewayMetrics, limit: &str) -> [u64; 4] {
    let verdicts = metrics.limits.verdicts(limit);
    ["allowed", "refused", "would_refuse", "undecided"].map(|verdict| {
        let counts = verdicts.iter().filter(|it| it.verdict == verdict);
        counts.map(|it| it.count).sum()
    })
}

/// Returns the number of calls of the store, the sum of their durations in microseconds, and the number of calls without a decision.
pub(super) fn store(metrics: &GatewayMetrics) -> [u64; 3] {
    let [calls, took] = metrics.store.calls();
    [calls, took, metrics.store.failures()]
}

/// Returns the counts of requests in the last `seconds` seconds.
pub(super) fn lately(series: &Series<4>, seconds: usize) -> RequestCounts {
    let all = series.lately(0, seconds);
    RequestCounts {
        all,
        refused: series.lately(1, seconds),
        failed: series.lately(2, seconds),
        mean_ms: mean_ms(all, series.lately(3, seconds) * TOOK_UNIT),
    }
}

/// Returns the increases of the first three counters, by seconds and by minutes.
pub(super) fn columns<T>(series: &Series<4>, of: impl Fn([Vec<u32>; 3]) -> T) -> Columns<T> {
    Columns {
        seconds: of([0, 1, 2].map(|counter| series.seconds(counter))),
        minutes: of([0, 1, 2].map(|counter| series.minutes(counter))),
    }
}

/// Returns the mean, in ms, of `count` durations with the sum `micros`.
pub(super) fn mean_ms(count: u64, micros: u64) -> f64 {
    let hundredths = micros / 10 / count.max(1);
    hundredths as f64 / 100.0
}
