//! `token_bucket`: bursts up to the capacity, and a sustained rate.
//!
//! With capacity C and a refill of n units per time P, admits cost c when debt + c <= C. The debt starts at 0 and is paid off continuously
//! at n per P. Promise: at most C + n·t/P units in any span t. This promise leaves out costs that responses add.

use crate::bucket::Bucket;

/// The quota of a token bucket.
pub type TokenBucket = Bucket<false>;
