//! `leaky_bucket`: a queue that drains at a constant rate.
//!
//! With a queue of Q units and a drain of n units per time P, admits cost c when waiting + c <= Q. Waiting units drain continuously. An
//! admitted request is released when all units before it have drained, after its [`Verdict::delay`](crate::Verdict::delay). The units of a
//! released request still count as waiting until they have drained. Promise: releases are at least P/n apart, to the microsecond, and at
//! most Q units wait.

use crate::bucket::Bucket;

/// The quota of a leaky bucket.
pub type LeakyBucket = Bucket<true>;
