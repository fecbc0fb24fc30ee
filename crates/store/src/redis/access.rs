//! The parts that every mode needs to call Redis.

use std::sync::Arc;
use std::time::Duration;

use tidegate_redis::Secret;

use super::decision_cache::DecisionCache;
use super::script::caller::Caller;

/// The access of all modes to Redis, and the cache of its answers.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) caller: Caller,
    /// The shared secret. No call is made before the gateways agree on it.
    pub(super) secret: Arc<Secret>,
    pub(super) cache: Arc<DecisionCache>,
    /// The longest time that a call waits for its answer.
    pub(super) timeout: Duration,
}
