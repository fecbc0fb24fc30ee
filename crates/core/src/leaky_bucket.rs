//! `leaky_bucket`: a queue that drains at a constant rate.
//!
//! Admits cost c when waiting + c <= Q. What waits drains continuously at n per P, and an admitted request is released
//! when what was before it has drained: [`Verdict::delay`](crate::Verdict::delay). A request that was released still waits, in this
//! count, until it has drained itself. Promise: releases are at least P/n apart, to the microsecond, and at most Q wait.

use crate::bucket::Bucket;

/// The quota of a leaky bucket.
pub type LeakyBucket = Bucket<true>;
