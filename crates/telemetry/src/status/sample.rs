//! The counters that are sampled, and what a series of them says.

use tidegate_status::Series;
use tidegate_status::document::{Columns, RequestCounts};

use crate::metrics::{GatewayMetrics, RequestTotals};
use crate::outcome::RequestOutcome;

/// In which the time of requests is sampled, in us: a second has room for what 100 requests of an hour took.
const TOOK_UNIT: u64 = 100;

/// Counts requests: all, refused, failed, and how long they took, in [`TOOK_UNIT`].
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

/// Counts what a limit said: allowed, refused, would have been refused, undecided.
pub(super) fn verdicts(metrics: &GatewayMetrics, limit: &str) -> [u64; 4] {
    let verdicts = metrics.limits.verdicts(limit);
    ["allowed", "refused", "would_refuse", "undecided"].map(|verdict| {
        let counts = verdicts.iter().filter(|it| it.verdict == verdict);
        counts.map(|it| it.count).sum()
    })
}

/// Returns the calls of the store, how long they took in us, and decisions that it did not give.
pub(super) fn store(metrics: &GatewayMetrics) -> [u64; 3] {
    let [calls, took] = metrics.store.calls();
    [calls, took, metrics.store.failures()]
}

/// Requests of the last seconds.
pub(super) fn lately(series: &Series<4>, seconds: usize) -> RequestCounts {
    let all = series.lately(0, seconds);
    RequestCounts {
        all,
        refused: series.lately(1, seconds),
        failed: series.lately(2, seconds),
        mean_ms: mean_ms(all, series.lately(3, seconds) * TOOK_UNIT),
    }
}

/// Returns the first three counters over time.
pub(super) fn columns<T>(series: &Series<4>, of: impl Fn([Vec<u32>; 3]) -> T) -> Columns<T> {
    Columns {
        seconds: of([0, 1, 2].map(|counter| series.seconds(counter))),
        minutes: of([0, 1, 2].map(|counter| series.minutes(counter))),
    }
}

/// The mean of so many that took so many us together, in ms.
pub(super) fn mean_ms(count: u64, micros: u64) -> f64 {
    let hundredths = micros / 10 / count.max(1);
    hundredths as f64 / 100.0
}
