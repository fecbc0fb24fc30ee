//! The parts that every mode needs to call Redis.

use std::sync::Arc;
use std::time::Duration;

use tidegate_redis::Secret;

use super::decision_cache::DecisionCache;
use super::script::caller::Caller;

/// The caller, the permission to call, the last answers, and the longest time that a call waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) caller: Caller,
    pub(super) secret: Arc<Secret>,
    pub(super) cache: Arc<DecisionCache>,
    pub(super) timeout: Duration,
}
