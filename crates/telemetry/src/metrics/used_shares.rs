//! A histogram of the used shares of budgets. Requests add to it without a lock.

#[cfg(test)]
mod tests;

use std::array::from_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Upper bounds of the buckets. From 0.8 on, a client is near its limit.
const BOUNDS: [f64; BUCKETS] = [0.1, 0.25, 0.5, 0.8, 0.9, 1.0];
/// The number of buckets.
pub(crate) const BUCKETS: usize = 6;
/// Upper bounds of all buckets but the last, in millionths.
const MILLIONTHS: [u32; BUCKETS - 1] = [100_000, 250_000, 500_000, 800_000, 900_000];

/// A histogram of the used shares of budgets, from 0 to 1. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedShares(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    buckets: [AtomicU64; BUCKETS],
    /// The sum of the shares, in millionths.
    sum: AtomicU64,
}

impl UsedShares {
    /// Adds the used share of a budget of `capacity` units, of which `remaining` are left.
    #[inline]
    pub(super) fn add(&self, capacity: u64, remaining: u64) {
        let used = capacity.saturating_sub(remaining);
        // Both numbers are far below 2^63, and a signed number is converted with one instruction.
        let share = used as i64 as f64 / capacity as i64 as f64;
        let millionths = (share * 1e6) as u32;
        let bucket = MILLIONTHS.iter().filter(|bound| millionths > **bound);
        let bucket = bucket.count();
        self.0.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.0.sum.fetch_add(millionths.into(), Ordering::Relaxed);
    }

    /// Returns the count of each bucket.
    pub(super) fn counts(&self) -> [u64; BUCKETS] {
        from_fn(|bucket| self.0.buckets[bucket].load(Ordering::Relaxed))
    }
}

impl TypedMetric for UsedShares {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for UsedShares {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let counts = self.counts();
        let count = counts.iter().sum();
        let buckets = BOUNDS.into_iter().zip(counts);
        // Prometheus demands a bucket without an upper bound. No share is above 1.
        let buckets: Vec<(f64, u64)> = buckets.chain([(f64::INFINITY, 0)]).collect();
        let sum = self.0.sum.load(Ordering::Relaxed) as f64 / 1e6;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
