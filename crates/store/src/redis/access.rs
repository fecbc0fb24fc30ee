//! What every mode needs to ask Redis.

use std::sync::Arc;
use std::time::Duration;

use tidegate_redis::Secret;

use super::decision_cache::DecisionCache;
use super::script::caller::Caller;

/// The calls, whether they may be made, what was answered, and how long an answer is waited for.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) caller: Caller,
    pub(super) secret: Arc<Secret>,
    pub(super) cache: Arc<DecisionCache>,
    pub(super) timeout: Duration,
}
