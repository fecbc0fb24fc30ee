//! A histogram of durations. Requests add to it without a lock.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use tidegate_core::micros;

/// Upper bounds of the buckets, in seconds.
pub(super) const BOUNDS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

/// The number of buckets. The last bucket has no upper bound.
pub(super) const BUCKETS: usize = BOUNDS.len() + 1;

/// Returns the upper bounds of the buckets, in seconds.
pub(super) fn bounds() -> impl Iterator<Item = f64> {
    BOUNDS.into_iter().chain([f64::INFINITY])
}

/// A histogram of durations. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Durations {
    /// The upper bounds of all buckets but the last, in seconds.
    bounds: &'static [f64],
    counts: Arc<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// The count of each bucket. The last bucket has no upper bound.
    buckets: Box<[AtomicU64]>,
    /// The sum of the durations, in microseconds.
    sum: AtomicU64,
}

impl Default for Durations {
    fn default() -> Self {
        Self::new(&BOUNDS)
    }
}

impl Durations {
    /// Returns an empty histogram with these upper bounds, in seconds.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        let sum = AtomicU64::new(0);
        let counts = Arc::new(Counts { buckets, sum });
        Self { bounds, counts }
    }

    /// Returns the number of durations, and their sum in microseconds.
    pub(super) fn sum(&self) -> [u64; 2] {
        let buckets = self.counts.buckets.iter();
        let count = buckets.map(|count| count.load(Ordering::Relaxed)).sum();
        [count, self.counts.sum.load(Ordering::Relaxed)]
    }

    /// Adds a duration.
    pub(super) fn observe(&self, duration: Duration) {
        self.counts.buckets[bucket(self.bounds, duration)].fetch_add(1, Ordering::Relaxed);
        self.counts
            .sum
            .fetch_add(micros(duration), Ordering::Relaxed);
    }
}

/// Returns the bucket of a duration. The bounds are in seconds.
pub(super) fn bucket(bounds: &[f64], duration: Duration) -> usize {
    let seconds = duration.as_secs_f64();
    let bucket = bounds.iter().position(|bound| seconds <= *bound);
    bucket.unwrap_or(bounds.len())
}

impl TypedMetric for Durations {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        let counts = self.counts.buckets.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // The count is the sum of the buckets that were read. A separate counter could include requests that ended after the buckets were
        // read.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_micros(self.counts.sum.load(Ordering::Relaxed));
        encoder.encode_histogram::<NoLabelSet>(sum.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
